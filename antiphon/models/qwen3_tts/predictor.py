"""The predictor: completes a frame, one group of codes after the other, from the talker's state.

Every frame is a run of its own over 16 positions: the talker's state, then the codes so far. What
embeds a code is folded with the projection to the predictor's width when the model is loaded.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.engine.attention import FrameAttention, FrameCache
from antiphon.engine.layers import Linear, Weights
from antiphon.engine.sampler import SamplingRows, sample
from antiphon.engine.transformer import Transformer
from antiphon.models.qwen3_tts.config import PredictorConfig
from antiphon.models.qwen3_tts.qwen3 import build_transformer
from antiphon.models.qwen3_tts.talker import FrameTable


@dataclass(frozen=True, slots=True)
class Predictor:
    """The model inside a frame.

    Attributes:
        projection: from the talker's width; ``None`` if the widths are the same.
        tables: projected embeddings of groups 0 to 14, each ``[size of group, hidden_size]``.
        heads: final state to logits, of groups 1 to 15.
    """

    config: PredictorConfig
    transformer: Transformer
    projection: Linear | None
    tables: tuple[Tensor, ...]
    heads: tuple[Linear, ...]

    @classmethod
    def of(cls, weights: Weights, config: PredictorConfig, frame_table: FrameTable) -> "Predictor":
        """Take the predictor out of a checkpoint's tensors; the talker has its embeddings."""
        name = "talker.code_predictor"
        projection = (
            Linear.of(weights, f"{name}.small_to_mtp_projection") if config.has_projection else None
        )
        tables = frame_table.groups[:-1]
        return cls(
            config=config,
            transformer=build_transformer(
                weights, f"{name}.model", config.transformer, config.num_groups
            ),
            projection=projection,
            tables=tuple(projection(table) for table in tables) if projection else tables,
            heads=tuple(
                Linear.of(weights, f"{name}.lm_head.{group}")
                for group in range(config.num_groups - 1)
            ),
        )

    def new_cache(self, num_rows: int) -> FrameCache:
        """Return room for the keys and values of a frame."""
        shape = self.config.transformer
        positions = self.config.num_groups
        return FrameCache.zeros(
            (shape.num_layers, num_rows, positions, shape.num_kv_heads, shape.head_dim),
            like=self.heads[0].weight,
        )

    def __call__(
        self,
        states: Tensor,
        first_codes: Tensor,
        rows: SamplingRows,
        noise: Tensor,
        cache: FrameCache,
    ) -> tuple[Tensor, Tensor]:
        """Complete frames.

        Args:
            states: the talker's states that said ``first_codes``, ``[rows, talker's width]``.
            first_codes: group 0, int64, ``[rows]``.
            rows: sampling parameters.
            noise: for groups 1 to 15, ``[rows, 15, vocab_size]``.
            cache: of `new_cache`, for at least as many rows; what it holds does not matter.

        Returns:
            Whole frames, int64, ``[rows, 16]``; and the scores of the drawn codes, ``[rows, 15]``.
        """
        attend = FrameAttention(cache, len(states))
        codes, scores = [first_codes], []
        if self.projection is not None:
            states = self.projection(states)
        inputs = torch.stack((states, F.embedding(first_codes, self.tables[0])), dim=1)
        for group, head in enumerate(self.heads, start=1):
            if group > 1:
                inputs = F.embedding(codes[-1], self.tables[group - 1])[:, None]
            start, end = attend.num_positions, attend.num_positions + inputs.shape[1]
            outputs = self.transformer(inputs, self.transformer.rope.between(start, end), attend)
            attend.advance(inputs.shape[1])
            logits = head(outputs[:, -1])
            drawn, score = sample(logits, rows, noise[:, group - 1])
            codes.append(drawn)
            scores.append(score)
        return torch.stack(codes, dim=1), torch.stack(scores, dim=1)
