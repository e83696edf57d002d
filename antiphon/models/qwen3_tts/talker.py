"""The talker: a Qwen3 decoder that reads text and codes on two tracks and says group 0 of a frame.

The text embedding and its projection are folded into one table when the model is loaded, and the
16 tables that embed a frame are laid end to end, so that a frame is embedded by one gather.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.models.qwen3_tts.config import TalkerConfig
from antiphon.models.qwen3_tts.qwen3 import build_transformer
from antiphon.nn import kernels
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.transformer import Transformer

_FOLD_ROWS = 8192


@dataclass(frozen=True, slots=True)
class FrameTable:
    """The embeddings of all groups of codes, end to end.

    Attributes:
        rows: shape ``[vocab_size + 15 * codebook_size, hidden_size]``; group 0 comes first.
        offsets: where each group begins, shape ``[num_groups]``.
        groups: the rows of each group, as views.
    """

    rows: Tensor
    offsets: Tensor
    groups: tuple[Tensor, ...]

    @classmethod
    def of(cls, tables: Sequence[Tensor]) -> "FrameTable":
        """Lay the tables of all groups end to end."""
        sizes = [len(table) for table in tables]
        offsets = torch.tensor([0, *sizes[:-1]]).cumsum(0)
        rows = torch.cat(list(tables))
        return cls(rows, offsets.to(rows.device), torch.split(rows, sizes))

    def group_0(self, codes: Tensor) -> Tensor:
        """Embed ids of the talker's own vocabulary, any shape."""
        return F.embedding(codes, self.rows)

    def frames(self, codes: Tensor) -> Tensor:
        """Embed whole frames ``[..., num_groups]``: the sum over their groups.

        On a GPU it is added group by group in f32, as a step does it, whatever the shape is.
        """
        embedded = F.embedding(codes + self.offsets, self.rows)
        if not kernels.run_on(self.rows):
            return embedded.sum(-2)
        first, *others = embedded.float().unbind(-2)
        for other in others:
            first = first + other
        return first.to(self.rows.dtype)


@dataclass(frozen=True, slots=True)
class Talker:
    """The language model over frames.

    Attributes:
        text_table: projected embedding of every text id, ``[text_vocab_size, hidden_size]``.
        frame_table: embeddings of codes.
        head: final state to logits of group 0.
        is_forbidden: ids of group 0 that are never said, bool, ``[vocab_size]``.
    """

    config: TalkerConfig
    transformer: Transformer
    text_table: Tensor
    frame_table: FrameTable
    head: Linear
    is_forbidden: Tensor

    @classmethod
    def of(
        cls,
        weights: Weights,
        config: TalkerConfig,
        max_positions: int,
        *,
        is_batch_invariant: bool = False,
    ) -> "Talker":
        """Take the talker out of a checkpoint's tensors, all of one type and on one device."""
        groups = range(config.num_groups - 1)
        name = "talker.code_predictor.model.codec_embedding"
        head = replace(
            Linear.of(weights, "talker.codec_head"), is_batch_invariant=is_batch_invariant
        )
        return cls(
            config=config,
            transformer=build_transformer(
                weights,
                "talker.model",
                config.transformer,
                max_positions,
                is_batch_invariant=is_batch_invariant,
            ),
            text_table=_folded_text_table(weights),
            frame_table=FrameTable.of(
                [
                    weights["talker.model.codec_embedding.weight"],
                    *(weights[f"{name}.{group}.weight"] for group in groups),
                ]
            ),
            head=head,
            is_forbidden=_forbidden_ids(config).to(head.weight.device),
        )

    def forbid(self, logits: Tensor, is_too_early: Tensor) -> Tensor:
        """Rule out ids that are never said, and the end of speech where it is too early.

        Args:
            logits: shape ``[rows, vocab_size]``.
            is_too_early: whether a row must not end yet, bool, ``[rows]``.
        """
        logits = logits.masked_fill(self.is_forbidden, -torch.inf)
        eos = self.config.tokens.eos
        logits[:, eos] = logits[:, eos].masked_fill(is_too_early, -torch.inf)
        return logits


def _folded_text_table(weights: Weights) -> Tensor:
    """Project the whole text embedding once; a lookup then replaces two products."""
    table = weights["talker.model.text_embedding.weight"]
    first = Linear.of(weights, "talker.text_projection.linear_fc1")
    second = Linear.of(weights, "talker.text_projection.linear_fc2")
    return torch.cat([second(F.silu(first(rows))) for rows in torch.split(table, _FOLD_ROWS)])


def _forbidden_ids(config: TalkerConfig) -> Tensor:
    ids = torch.arange(config.vocab_size)
    return (ids >= config.first_suppressed_id) & (ids != config.tokens.eos)
