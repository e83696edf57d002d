"""Code predictor: a small model that completes a frame, one codebook group after the other.

Every frame is a run of its own, with one position per group: the hidden state that the first code
was drawn from, then the codes so far. Code embeddings are folded with the projection to the
predictor's width when the model is loaded.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn.attention import FrameCache
from antiphon.nn.attention_backends import frame_attention
from antiphon.nn.backends import TorchBackend, backend_of
from antiphon.nn.layers import Linear
from antiphon.nn.sampler import LogitsFilter, SamplingRows
from antiphon.nn.transformer import States, Transformer

logger = logging.getLogger(__name__)

if TYPE_CHECKING:  # it needs CUDA
    from antiphon.nn.cuda.inner_codes import InnerCodes


@dataclass(frozen=True, slots=True)
class FrameTable:
    """The embeddings of all groups of codes, end to end.

    Attributes:
        rows: shape ``[vocab_size + 15 * codebook_size, hidden_size]``; group 0 comes first.
        offsets: first row of each group, shape ``[num_groups]``.
        groups: rows of each group, as views.
    """

    rows: Tensor
    offsets: Tensor
    groups: tuple[Tensor, ...]
    backend: TorchBackend

    @classmethod
    def of(cls, tables: Sequence[Tensor]) -> "FrameTable":
        """Concatenate the tables of all groups."""
        sizes = [len(table) for table in tables]
        offsets = torch.tensor([0, *sizes[:-1]]).cumsum(0)
        rows = torch.cat(list(tables))
        return cls(rows, offsets.to(rows.device), torch.split(rows, sizes), backend_of(rows))

    def frames(self, codes: Tensor) -> Tensor:
        """Return embeddings of whole frames ``[..., num_groups]``: the sum over their groups.

        On a GPU, groups are added one by one in f32 for any shape, as in a decode step.
        """
        return self.backend.sum_embeddings(codes + self.offsets, self.rows)


@dataclass(frozen=True, slots=True)
class CodePredictor:
    """Model of the codebook groups within a frame.

    Attributes:
        projection: projection from the outer model's width; ``None`` if the widths are the same.
        tables: projected embeddings of all groups but the last, each ``[size, hidden_size]``.
        heads: final state to logits, for all groups but the first.
        filter: logits filter in place of the sampler's top-k and top-p.
        resident: program that makes all codes of few rows in one launch; ``None``: kernels only.
    """

    transformer: Transformer
    projection: Linear | None
    tables: tuple[Tensor, ...]
    heads: tuple[Linear, ...]
    filter: LogitsFilter | None = None
    resident: "InnerCodes | None" = None

    def with_resident(self) -> "CodePredictor":
        """Return a copy with a program for few rows, if one exists for its sizes and GPU."""
        from antiphon.nn.cuda import inner_codes
        from antiphon.nn.cuda.compiler import CompilationError

        parts = self.transformer, self.heads, self.tables
        if self.filter is not None or not inner_codes.is_served(*parts):
            return self
        try:
            resident = inner_codes.InnerCodes.of(*parts)
        except CompilationError as error:  # an older or newer compiler: kernels do the same
            logger.warning("inner codes are made by kernels, since their program failed: %s", error)
            return self
        return replace(self, resident=resident)

    @property
    def vocab_size(self) -> int:
        return len(self.heads[0].weight)

    def new_cache(self, num_rows: int) -> FrameCache:
        """Return an empty cache for the keys and values of a frame."""
        num_positions, like = len(self.heads) + 1, self.heads[0].weight
        return FrameCache.zeros(self.transformer.kv_shape, num_rows, num_positions, like=like)

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
            states: states that the codes of group 0 were drawn from, ``[rows, width of the outer
                model]``.
            frames: codes of whole frames, int64, and their scores, f32, both ``[rows,
                num_groups]``, rows of any stride; all groups but the first are written.
            noise: noise for all groups but the first, f32 ``[rows, num_groups - 1, vocab_size]``,
                rows of any stride that is a multiple of four.
            cache: cache from `new_cache` for at least as many rows; its contents are overwritten.
        """
        codes, scores = frames
        if self.projection is not None:
            states = self.projection(states)
        if self.resident is not None and len(states) <= self.resident.max_rows:
            self.resident.complete(states, frames, rows, noise)
            return
        inputs, start = self._begin(states, codes[:, 0]), 0
        for group, head in enumerate(self.heads, start=1):
            attend = frame_attention(cache, len(states), start)
            rotation = self.transformer.rope.between(start, group + 1)
            logits = self.transformer.project(inputs, rotation, attend, head)
            start = group + 1
            drawn = codes[:, group], scores[:, group]
            table = self.tables[min(group, len(self.tables) - 1)]  # the last is not embedded
            inputs = self._draw(logits, rows, noise[:, group - 1], drawn, table)

    def _begin(self, states: Tensor, codes: Tensor) -> States:
        """Return the first two positions of each row: a state, and the code drawn from it."""
        if self.heads[0].backend.has_kernels:
            from antiphon.nn.kernels import frame

            return frame.begin(states, codes, self.tables[0], self.transformer.first_norm)
        return torch.stack((states, F.embedding(codes, self.tables[0])), dim=1)

    def _draw(
        self,
        logits: Tensor,
        rows: SamplingRows,
        noise: Tensor,
        drawn: tuple[Tensor, Tensor],
        table: Tensor,
    ) -> States:
        """Draw codes, and embed them for the next group."""
        backend = self.heads[0].backend
        if self.filter is not None:
            logits, rows = self.filter(logits, rows), rows.unfiltered(self.vocab_size)
        if backend.has_kernels:
            from antiphon.nn.kernels import sampling

            parameters = (rows.temperature, rows.top_k, rows.top_p)
            norm = self.transformer.first_norm
            return sampling.draw_and_embed(logits, parameters, noise, drawn, table, norm)
        codes, scores = backend.sample(logits, rows, noise)
        for target, source in zip(drawn, (codes, scores), strict=True):
            target.copy_(source)
        return F.embedding(codes, table)[:, None]
