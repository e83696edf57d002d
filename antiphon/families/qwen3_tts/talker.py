"""Talker: a Qwen3 decoder over a text and a codec track that generates group 0 of each frame.

The text embedding and its projection are folded into one table when the model is loaded, and the 16
embedding tables of a frame are concatenated, so that one gather embeds a frame.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.qwen3_tts.config import PredictorConfig, TalkerConfig
from antiphon.nn.code_predictor import CodePredictor, FrameTable
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.transformer import Transformer

_FOLD_ROWS = 8192


@dataclass(frozen=True, slots=True)
class Talker:
    """Language model over frames.

    Attributes:
        text_table: projected embeddings of all text ids, ``[text_vocab_size, hidden_size]``.
        frame_table: embeddings of codes.
        head: final state to logits of group 0.
        is_forbidden: mask of group-0 ids that are never drawn, bool, ``[vocab_size]``.
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
        """Read the talker from a checkpoint's tensors, all of one type and on one device."""
        groups = range(config.num_groups - 1)
        name = "talker.code_predictor.model.codec_embedding"
        head = replace(
            Linear.of(weights, "talker.codec_head"), is_batch_invariant=is_batch_invariant
        )
        return cls(
            config=config,
            transformer=Transformer.of(
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
        """Mask ids that are never drawn, and the end of speech if it is too early.

        Args:
            logits: shape ``[rows, vocab_size]``.
            is_too_early: whether a row must not end yet, bool, ``[rows]``.
        """
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
    projection = None
    if config.has_projection:
        projection = Linear.of(weights, f"{name}.small_to_mtp_projection")
        projection = replace(projection, is_batch_invariant=is_batch_invariant)
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
        heads=tuple(
            Linear.of(weights, f"{name}.lm_head.{group}") for group in range(config.num_groups - 1)
        ),
    )
    return predictor.with_resident()


def _folded_text_table(weights: Weights) -> Tensor:
    """Project the whole text embedding once, so that a lookup replaces two products."""
    table = weights["talker.model.text_embedding.weight"]
    first = Linear.of(weights, "talker.text_projection.linear_fc1")
    second = Linear.of(weights, "talker.text_projection.linear_fc2")
    return torch.cat([second(F.silu(first(rows))) for rows in torch.split(table, _FOLD_ROWS)])


def _forbidden_ids(config: TalkerConfig) -> Tensor:
    ids = torch.arange(config.vocab_size)
    return (ids >= config.first_suppressed_id) & (ids != config.tokens.eos)
