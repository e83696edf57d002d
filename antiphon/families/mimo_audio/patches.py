"""Patch encoder and decoder: groups of codes to inputs of the language model, and states to groups.

Both are small transformers over a group. The encoder reads all frames at once. The decoder runs one
step per frame plus the delay of the last channel: a step draws the code of every due channel, and
the next step reads their summed embeddings.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.mimo_audio.config import MiMoAudioConfig
from antiphon.nn.attention import FrameCache
from antiphon.nn.attention_backends import frame_attention, whole_attention
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.sampler import SamplingRows
from antiphon.nn.transformer import Transformer

_HEADS_ARE_A_MULTIPLE_OF = 64  # outputs, for fast kernels


@dataclass(frozen=True, slots=True)
class ChannelTables:
    """Concatenated code embeddings of all channels.

    Attributes:
        rows: ``[sum of code_sizes, width]``; rows of empty codes are zero.
        offsets: first row of each channel, int64 ``[num_channels]``.
    """

    rows: Tensor
    offsets: Tensor

    def frames(self, codes: Tensor) -> Tensor:
        """Embed frames, ``[..., num_channels]``, as the sum over their channels."""
        parts = F.embedding(codes + self.offsets, self.rows)
        return parts.sum(-2)


@dataclass(frozen=True, slots=True)
class GroupEncoder:
    """Patch encoder from groups of codes to inputs of the language model."""

    config: MiMoAudioConfig
    tables: ChannelTables
    transformer: Transformer
    narrow: Linear

    @classmethod
    def of(
        cls, weights: Weights, config: MiMoAudioConfig, is_batch_invariant: bool
    ) -> "GroupEncoder":
        """Build the encoder from a checkpoint's tensors; see `antiphon.nn.layers.Linear`."""
        tables = []
        for channel, empty in enumerate(config.empty_codes):
            table = weights[f"speech_embeddings.{channel}.weight"].clone()
            table[empty] = 0
            tables.append(table)
        sizes = torch.tensor(config.code_sizes)
        rows = torch.cat(tables)
        name, how = "input_local_transformer", {"is_batch_invariant": is_batch_invariant}
        return cls(
            config=config,
            tables=ChannelTables(rows, (sizes.cumsum(0) - sizes).to(rows.device)),
            transformer=Transformer.of(weights, name, config.encoder, config.group_frames, **how),
            narrow=Linear.of(weights, "speech_group_downcast", **how),
        )

    def __call__(self, codes: Tensor) -> Tensor:
        """Return inputs ``[n, width]`` of groups, int64 ``[n, group_frames * num_channels]``."""
        frames = self.tables.frames(codes.view(len(codes), self.config.group_frames, -1))
        rotation = self.transformer.rope.between(0, self.config.group_frames)
        return self.narrow(self.transformer(frames, rotation, whole_attention).flatten(1))


@dataclass(frozen=True, slots=True)
class DueCodes:
    """Codes drawn in a step of the patch decoder: one code for each due channel.

    Attributes:
        places: indices in a group, int64 ``[num_due]``.
        columns: columns of the heads, int64 ``[num_due, num_codes]``; any where there is no code.
        forbidden: mask of columns without a code or with the empty one, bool ``[num_due,
            num_codes]``.
        offsets: offsets of the channels' embeddings, int64 ``[num_due]``.
    """

    places: Tensor
    columns: Tensor
    forbidden: Tensor
    offsets: Tensor

    @classmethod
    def of_step(cls, config: MiMoAudioConfig, step: int, device: torch.device) -> "DueCodes":
        due = [
            (step - delay, channel)
            for channel, delay in enumerate(config.delays)
            if 0 <= step - delay < config.group_frames
        ]
        channels = torch.tensor([channel for _, channel in due])
        sizes, empty = torch.tensor(config.code_sizes), torch.tensor(config.empty_codes)
        offsets = (sizes.cumsum(0) - sizes)[channels]
        codes = torch.arange(max(config.code_sizes))[None]
        is_beyond = codes >= sizes[channels, None]
        columns = torch.where(is_beyond, 0, codes + offsets[:, None])
        forbidden = is_beyond | (codes == empty[channels, None])
        places = torch.tensor([frame * config.num_channels + channel for frame, channel in due])
        return cls(*(each.to(device) for each in (places, columns, forbidden, offsets)))


@dataclass(frozen=True, slots=True)
class GroupDecoder:
    """Patch decoder from states of the language model to groups of codes.

    Attributes:
        table: concatenated embeddings of all channels in the decoder's width.
        heads: concatenated heads of all channels, padded.
        due: codes drawn in each step.
        order: index of each code of a group among all drawn codes, int64
            ``[group_frames * num_channels]``.
    """

    config: MiMoAudioConfig
    transformer: Transformer
    begin: Linear
    table: Tensor
    heads: Linear
    due: tuple[DueCodes, ...]
    order: Tensor

    @classmethod
    def of(
        cls, weights: Weights, config: MiMoAudioConfig, is_batch_invariant: bool
    ) -> "GroupDecoder":
        """Build the decoder from a checkpoint's tensors; see `antiphon.nn.layers.Linear`."""
        channels = range(config.num_channels)
        rows = torch.cat([weights[f"speech_embeddings.{channel}.weight"] for channel in channels])
        if "speech_embeddings_to_local.weight" in weights:
            rows = Linear.of(weights, "speech_embeddings_to_local")(rows)
        names = [f"local_transformer_lm_heads.{channel}" for channel in channels]
        num_steps, how = config.decoder.max_positions, {"is_batch_invariant": is_batch_invariant}
        due = tuple(DueCodes.of_step(config, step, rows.device) for step in range(num_steps))
        heads = torch.cat([weights[f"{each}.weight"] for each in names])
        local = Transformer.of(weights, "local_transformer", config.decoder, num_steps, **how)
        return cls(
            config=config,
            transformer=local,
            begin=Linear.of(weights, "hidden_states_downcast", **how),
            table=rows,
            heads=Linear(F.pad(heads, (0, 0, 0, -len(heads) % _HEADS_ARE_A_MULTIPLE_OF))),
            due=due,
            order=torch.cat([each.places for each in due]).argsort(),
        )

    @property
    def num_codes(self) -> int:
        """Largest number of codes in a channel."""
        return max(self.config.code_sizes)

    def new_cache(self, num_rows: int) -> FrameCache:
        """Return a KV cache for a group."""
        num_positions, like = self.config.decoder.max_positions, self.heads.weight
        return FrameCache.zeros(self.transformer.kv_shape, num_rows, num_positions, like=like)

    def draw(
        self, states: Tensor, rows: SamplingRows, noise: Tensor, cache: FrameCache
    ) -> tuple[Tensor, Tensor]:
        """Draw one group per row.

        Args:
            states: states of the language model, ``[num_rows, width]``.
            noise: ``[num_rows, group_frames * num_channels, num_codes]``.
            cache: cache from `new_cache` with at least ``num_rows`` rows; its contents are
                overwritten.

        Returns:
            Codes, int64, and their scores, f32: ``[num_rows, group_frames * num_channels]``.
        """
        inputs = self.begin(states)[:, None]
        parts: list[tuple[Tensor, Tensor]] = []
        spread: dict[int, SamplingRows] = {}
        for step, due in enumerate(self.due):
            rotation = self.transformer.rope.between(step, step + 1)
            attend = frame_attention(cache, len(states), step)
            logits = self.transformer.project(inputs, rotation, attend, self.heads)
            count = len(due.places)
            if count not in spread:
                spread[count] = _repeated(rows, count)
            drawn = self._draw(logits, due, spread[count], noise)
            parts.append(drawn)
            inputs = F.embedding(drawn[0] + due.offsets, self.table).sum(1, keepdim=True)
        codes, scores = (torch.cat(each, dim=1) for each in zip(*parts, strict=True))
        return codes[:, self.order], scores[:, self.order]

    def _draw(
        self, logits: Tensor, due: DueCodes, rows: SamplingRows, noise: Tensor
    ) -> tuple[Tensor, Tensor]:
        wide = logits[:, due.columns].float().masked_fill(due.forbidden, -torch.inf)
        flat = (wide.flatten(0, 1), rows, noise[:, due.places].flatten(0, 1))
        codes, scores = self.heads.backend.sample(*flat)
        return codes.view(wide.shape[:2]), scores.view(wide.shape[:2])


def _repeated(rows: SamplingRows, count: int) -> SamplingRows:
    return SamplingRows(
        temperature=rows.temperature.repeat_interleave(count),
        top_k=rows.top_k.repeat_interleave(count),
        top_p=rows.top_p.repeat_interleave(count),
        repetition_penalty=rows.repetition_penalty.repeat_interleave(count),
        reach=rows.reach,
    )
