"""The predictor: completes a frame, one group of codes after the other, from the talker's state.

Every frame is a run of its own over 16 positions: the talker's state, then the codes so far. What
embeds a code is folded with the projection to the predictor's width when the model is loaded.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.models.qwen3_tts.config import PredictorConfig
from antiphon.models.qwen3_tts.qwen3 import build_transformer
from antiphon.models.qwen3_tts.talker import FrameTable
from antiphon.nn import kernels
from antiphon.nn.attention import FrameAttention, FrameCache
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.sampler import SamplingRows, sample
from antiphon.nn.transformer import Transformer

if TYPE_CHECKING:  # it needs Triton
    from antiphon.nn.kernels.fused_linear import Scaled


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
    def of(
        cls,
        weights: Weights,
        config: PredictorConfig,
        frame_table: FrameTable,
        *,
        is_batch_invariant: bool = False,
    ) -> "Predictor":
        """Take the predictor out of a checkpoint's tensors; the talker has its embeddings."""
        name = "talker.code_predictor"
        projection = None
        if config.has_projection:
            projection = Linear.of(weights, f"{name}.small_to_mtp_projection")
            projection = replace(projection, is_batch_invariant=is_batch_invariant)
        tables = frame_table.groups[:-1]
        return cls(
            config=config,
            transformer=build_transformer(
                weights,
                f"{name}.model",
                config.transformer,
                config.num_groups,
                is_batch_invariant=is_batch_invariant,
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

    def complete(
        self,
        states: Tensor,
        frames: tuple[Tensor, Tensor],
        rows: SamplingRows,
        noise: Tensor,
        cache: FrameCache,
    ) -> None:
        """Complete frames.

        Args:
            states: the talker's states that said the codes of group 0, ``[rows, its width]``.
            frames: codes of whole frames, int64, and their scores, f32, both ``[rows, 16]`` of
                any stride; all groups but the first are written.
            rows: sampling parameters.
            noise: for groups 1 to 15, ``[rows, 15, vocab_size]``.
            cache: of `new_cache`, for at least as many rows; what it holds does not matter.
        """
        codes, scores = frames
        attend = FrameAttention(cache, len(states))
        if self.projection is not None:
            states = self.projection(states)
        first = F.embedding(codes[:, 0], self.tables[0])
        inputs: Tensor | Scaled = torch.stack((states, first), dim=1)
        for group, head in enumerate(self.heads, start=1):
            start, end = attend.num_positions, group + 1
            rotation = self.transformer.rope.between(start, end)
            logits = self.transformer.project(inputs, rotation, attend, head)
            attend.advance(end - start)
            drawn = codes[:, group], scores[:, group]
            table = self.tables[min(group, len(self.tables) - 1)]  # the last is not needed
            inputs = self._draw(logits, rows, noise[:, group - 1], drawn, table)

    def _draw(
        self,
        logits: Tensor,
        rows: SamplingRows,
        noise: Tensor,
        drawn: tuple[Tensor, Tensor],
        table: Tensor,
    ) -> "Tensor | Scaled":
        """Draw codes, and embed them for the next group."""
        if kernels.run_on(logits):
            from antiphon.nn.kernels import sampling

            parameters = (rows.temperature, rows.top_k, rows.top_p)
            norm = self.transformer.first_norm
            return sampling.draw_and_embed(logits, parameters, noise, drawn, table, norm)
        codes, scores = sample(logits, rows, noise)
        for target, source in zip(drawn, (codes, scores), strict=True):
            target.copy_(source)
        return F.embedding(codes, table)[:, None]
