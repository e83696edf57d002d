"""Talker: a Qwen3 decoder over a text and a codec track that generates group 0 of each frame.

The text embedding and its projection are folded into one table, and the 16 embedding tables of a
frame are concatenated, so that one gather embeds a frame.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.qwen3_tts.config import PredictorConfig, TalkerConfig
from antiphon.nn import kernels
from antiphon.nn.code_predictor import CodePredictor, FrameTable
from antiphon.nn.cpu.lazy_rows import LazyRows, projected
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.quantized.stored_rows import stored_rows
from antiphon.nn.transformer import Transformer

_FOLD_ROWS = 8192


@dataclass(frozen=True, slots=True)
class Talker:
    """Language model over frames.

    Attributes:
        text_table: projected embeddings of all text ids, ``[text_vocab_size, hidden_size]``.
        lazy_text: rows of ``text_table`` computed on first use; ``None``: all are there.
        head: final state to logits of group 0.
        is_forbidden: mask of group-0 ids that are never drawn, bool, ``[vocab_size]``.
    """

    config: TalkerConfig
    transformer: Transformer
    text_table: Tensor
    frame_table: FrameTable
    head: Linear
    is_forbidden: Tensor
    lazy_text: LazyRows | None = None

    @classmethod
    def of(
        cls,
        weights: Weights,
        config: TalkerConfig,
        max_positions: int,
        *,
        is_batch_invariant: bool = False,
    ) -> "Talker":
        """Read the talker from a checkpoint's tensors, all of one type and on one device."""
        groups = range(config.num_groups - 1)
        name = "talker.code_predictor.model.codec_embedding"
        codes = [weights[f"{name}.{group}.weight"] for group in groups]
        text, ids = _folded_text_table(weights), torch.arange(config.vocab_size)
        torch.cuda.empty_cache()  # or weights would lie in what the embedding took
        is_forbidden = (ids >= config.first_suppressed_id) & (ids != config.tokens.eos)
        return cls(
            config=config,
            transformer=Transformer.of(
                weights,
                "talker.model",
                config.transformer,
                max_positions,
                is_batch_invariant=is_batch_invariant,
            ),
            text_table=text.table if isinstance(text, LazyRows) else text,
            lazy_text=text if isinstance(text, LazyRows) else None,
            frame_table=FrameTable.of([weights["talker.model.codec_embedding.weight"], *codes]),
            head=Linear.of(weights, "talker.codec_head", is_batch_invariant=is_batch_invariant),
            is_forbidden=is_forbidden.to(codes[0].device),
        )

    def embed_text(self, ids: Tensor) -> Tensor:
        """Return the projected embeddings of text ids, ``[*ids.shape, hidden_size]``."""
        if self.lazy_text is not None:
            self.lazy_text.fill(ids)
        return F.embedding(ids, self.text_table)

    def forbid(self, logits: Tensor, is_too_early: Tensor) -> Tensor:
        """Mask never drawn ids in ``[rows, vocab_size]``, and the end where it is too early."""
        logits = logits.masked_fill(self.is_forbidden, -torch.inf)
        eos = self.config.tokens.eos
        logits[:, eos] = logits[:, eos].masked_fill(is_too_early, -torch.inf)
        return logits


def load_predictor(
    weights: Weights,
    config: PredictorConfig,
    frame_table: FrameTable,
    *,
    is_batch_invariant: bool = False,
) -> CodePredictor:
    """Read the predictor from a checkpoint's tensors; the talker has its embeddings."""
    name = "talker.code_predictor"

    def linear(part: str) -> Linear:
        return Linear.of(weights, f"{name}.{part}", is_batch_invariant=is_batch_invariant)

    projection = linear("small_to_mtp_projection") if config.has_projection else None
    tables = frame_table.groups[:-1]
    predictor = CodePredictor(
        transformer=Transformer.of(
            weights,
            f"{name}.model",
            config.transformer,
            config.num_groups,
            is_batch_invariant=is_batch_invariant,
        ),
        projection=projection,
        tables=tuple(projection(table) for table in tables) if projection else tables,
        heads=tuple(linear(f"lm_head.{group}") for group in range(config.num_groups - 1)),
    )
    return predictor.with_resident()


def _folded_text_table(weights: Weights) -> Tensor | LazyRows:
    """Project the whole text embedding once; on a CPU, which takes long, each row on first use."""
    name = "talker.model.text_embedding.weight"
    first, second = (Linear.of(weights, f"talker.text_projection.linear_fc{n}") for n in (1, 2))
    like, stored = second.weight, stored_rows(weights, name)
    size = len(stored), len(like)
    if like.is_cpu and not kernels.run_on(like):  # kernels read the table
        return LazyRows(*size, lambda ids: projected(stored[ids].to(like), first, second), like)
    table = like.new_empty(size)
    parts = (torch.split(each, _FOLD_ROWS) for each in (torch.arange(len(table)), table))
    for ids, rows in zip(*parts, strict=True):  # a GPU has no room for the whole embedding
        rows.copy_(second(F.silu(first(stored[ids].to(like)))))
    return table
