"""Streaming decoder of the audio tokenizer: groups of codes in, delayed audio out.

Code embeddings are summed, upsampled to 50 Hz and passed through causal layers. A transposed
convolution produces a mel spectrogram at 100 Hz, layers with look-ahead turn it into spectra, and
windows of samples are overlapped and added. See `antiphon.families.mimo_audio.codec_layers` for the
state of a stream.
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.mimo_audio.codec_layers import TimeNorm, layer_norm
from antiphon.families.mimo_audio.codec_stack import Span, StreamingStack
from antiphon.families.mimo_audio.config import PASS_GROUPS, AudioTokenizerConfig
from antiphon.nn.codec_layers.transformer import LayerNorm
from antiphon.nn.layers import Linear, Weights

_MAX_MAGNITUDE = 1e2


@dataclass(frozen=True, slots=True)
class CodecState:
    """State of all slots; updated in place.

    Attributes:
        ticks: number of groups of audio and groups past the end in each slot, int64
            ``[num_slots]``.
        num_groups: number of groups of audio alone, of the same shape.
        sums: statistics of both norms; zeros here and in the fields above mean a fresh stream.
    """

    ticks: Tensor
    num_groups: Tensor
    sums: tuple[Tensor, ...]
    lines: tuple[Tensor, ...]
    decoder: tuple[Tensor, ...]
    last: Tensor
    vocoder: tuple[Tensor, ...]
    windows: Tensor

    def reset(self, slot: int) -> None:
        """Reset a slot to a fresh stream; its other states are then ignored."""
        for tensor in (self.ticks, self.num_groups, *self.sums):
            tensor[slot].zero_()


@dataclass(frozen=True, slots=True)
class Overlap:
    """Overlap-add from spectra to samples, normalised by the sum of squared windows.

    Attributes:
        basis: matrix from a spectrum (real parts, then imaginary ones) to windowed samples.
        squares: squared window, ``[num_hops, hop]``.
    """

    basis: Tensor
    squares: Tensor
    hop: int

    @classmethod
    def of(cls, window: Tensor, hop: int) -> "Overlap":
        """Build the transform from a window, ``[fft_size]``."""
        size = len(window)
        number = torch.arange(size // 2 + 1, dtype=torch.float64)[:, None]
        angles = 2 * math.pi / size * (number * torch.arange(size, dtype=torch.float64) % size)
        share = torch.full((size // 2 + 1, 1), 2.0 / size, dtype=torch.float64)
        share[0] = share[-1] = 1.0 / size
        waves = torch.cat((share * angles.cos(), -share * angles.sin()))
        basis = (waves * window.double().cpu()).to(window)
        return cls(basis, window.square().view(-1, hop), hop)

    @property
    def num_hops(self) -> int:
        """Hops per window."""
        return len(self.squares)

    @property
    def padding(self) -> int:
        """Samples before the first one that is returned."""
        return (self.num_hops - 1) * self.hop // 2

    def windows(self, logits: Tensor) -> Tensor:
        """Return windowed samples, ``[..., fft_size]``, from logits ``[..., fft_size + 2]``."""
        magnitude, phase = logits.chunk(2, dim=-1)
        magnitude = magnitude.exp().clamp(max=_MAX_MAGNITUDE)
        return torch.cat((magnitude * phase.cos(), magnitude * phase.sin()), dim=-1) @ self.basis

    def added(self, windows: Tensor, is_valid: Tensor) -> Tensor:
        """Return the samples, ``[num_rows, n * hop]``, of hops whose windows are all available.

        Args:
            windows: ``[num_rows, num_hops - 1 + n, fft_size]``.
            is_valid: mask of windows that belong to the stream, bool.
        """
        num_rows, count = len(windows), windows.shape[1] - self.num_hops + 1
        parts = torch.unflatten(windows, 2, (self.num_hops, self.hop))
        total, weight = parts.new_zeros(2, num_rows, count, self.hop)
        for hop in range(self.num_hops):
            first = self.num_hops - 1 - hop
            valid = is_valid[:, first : first + count, None]
            total = total + torch.where(valid, parts[:, first : first + count, hop], 0.0)
            weight = weight + torch.where(valid, self.squares[hop], 0.0)
        return torch.where(weight > 1e-11, total / weight.clamp(min=1e-11), 0.0).flatten(1)


@dataclass(frozen=True, slots=True)
class AudioDecoder:
    """The decoder from codes to samples."""

    config: AudioTokenizerConfig
    table: Tensor
    offsets: Tensor
    sizes: Tensor
    stretch: Linear
    stretch_norm: TimeNorm
    decoder: StreamingStack
    norm: LayerNorm
    mel_weight: Tensor
    mel_bias: Tensor
    mel_norm: TimeNorm
    embedding: Linear
    vocoder: StreamingStack
    vocoder_norm: LayerNorm
    head: Linear
    overlap: Overlap

    @classmethod
    def of(
        cls, weights: Weights, config: AudioTokenizerConfig, *, is_exact: bool = False
    ) -> "AudioDecoder":
        """Build the decoder from a tokenizer's tensors, in float32 and on one device.

        ``is_exact`` is whether to compute in float32 throughout; see `StreamingStack.of`.
        """
        sizes = torch.tensor(config.code_sizes[: config.num_codes_used])
        tables = [
            weights[f"encoder.quantizer.vq.layers.{index}._codebook.embed"]
            for index in range(config.num_codes_used)
        ]
        device, ahead = tables[0].device, config.norm_groups
        conv = weights["decoder.dconv1.conv.weight"].permute(2, 1, 0)
        bias = weights["decoder.dconv1.conv.bias"].repeat(config.pooling)
        streamed = partial(StreamingStack.of, weights, is_exact=is_exact)
        return cls(
            config=config,
            table=torch.cat(tables),
            offsets=(sizes.cumsum(0) - sizes).to(device),
            sizes=sizes.to(device),
            stretch=Linear(conv.flatten(0, 1).contiguous(), bias),
            stretch_norm=TimeNorm.of(weights, "decoder.dconv1.norm", ahead),
            decoder=streamed(
                "decoder",
                config.decoder,
                PASS_GROUPS * config.group_positions,
                factors=torch.float16,
            ),
            norm=layer_norm(weights, "decoder.layer_norm"),
            mel_weight=weights["decoder.dconv2.conv.weight"],
            mel_bias=weights["decoder.dconv2.conv.bias"],
            mel_norm=TimeNorm.of(weights, "decoder.dconv2.norm", ahead),
            embedding=Linear.of(weights, "decoder.vocoder.embeddings"),
            vocoder=streamed("decoder.vocoder", config.vocoder, PASS_GROUPS * config.group_mels),
            vocoder_norm=layer_norm(weights, "decoder.vocoder.layer_norm"),
            head=Linear.of(weights, "decoder.vocoder.head.out"),
            overlap=Overlap.of(weights["decoder.vocoder.head.istft.window"], config.hop_samples),
        )

    @property
    def num_stretched(self) -> int:
        """Groups past a stream's last one that its decoder's layers wait for."""
        return self.stretch_norm.num_ahead

    @property
    def num_late_ticks(self) -> int:
        """Groups past a stream's last one until all its audio has been returned."""
        num_mels = self.vocoder.delay + -(-self.overlap.padding // self.config.hop_samples)
        return self.num_stretched + self.mel_norm.num_ahead + -(-num_mels // self.config.group_mels)

    def open(self, num_slots: int) -> CodecState:
        config, like = self.config, self.table
        counts = torch.zeros(2, num_slots, dtype=torch.int64, device=like.device)
        norms = (
            self.stretch_norm.open(num_slots, PASS_GROUPS, config.group_positions),
            self.mel_norm.open(num_slots, PASS_GROUPS, config.group_mels),
        )
        num_windows = self.overlap.num_hops - 1 + PASS_GROUPS * config.group_mels
        return CodecState(
            ticks=counts[0],
            num_groups=counts[1],
            sums=tuple(sums for sums, _ in norms),
            lines=tuple(line for _, line in norms),
            decoder=self.decoder.open(num_slots),
            last=like.new_zeros(num_slots, PASS_GROUPS + 1, self._num_before, like.shape[1]),
            vocoder=self.vocoder.open(num_slots),
            windows=like.new_zeros(num_slots, num_windows, config.fft_size),
        )

    def tick(
        self,
        codes: Tensor,
        state: CodecState,
        slots: Tensor,
        flags: Tensor,
        *,
        is_past: bool = False,
    ) -> Tensor:
        """Decode groups of each row, and return the audio that no later group can change.

        Args:
            codes: int64 ``[num_rows, PASS_GROUPS, group_frames, num_codes_used]``; padding may
                have any value.
            slots: slots of the rows, int64 ``[num_rows]``.
            flags: bool ``[num_rows, PASS_GROUPS, 2]``: whether there is a group, and whether it is
                past the end of the stream.
            is_past: whether all groups of all rows are `num_stretched` or more past the end.

        Returns:
            float32 ``[num_rows, PASS_GROUPS * samples_per_group + 2]``: samples, then the start and
            end of those to return.
        """
        codes, is_group, is_end = _in_front(codes, flags)
        rows, counts = slots[:, None], is_group | is_end
        ticks, num_groups = state.ticks[slots], state.num_groups[slots] + is_group.sum(1)
        state.num_groups[slots] = num_groups
        num_counted = counts.sum(1)
        groups = ticks[:, None] + torch.arange(PASS_GROUPS, device=ticks.device)
        place = (rows, groups - self.num_stretched, num_groups[:, None])
        if is_past:  # the decoder's layers have all groups of the streams
            size = PASS_GROUPS * self.config.group_positions
            states = self.table.new_zeros(len(codes), size, self.table.shape[1])
        else:
            states = self._embedded(codes)
            states = self.stretch(states).view(*counts.shape, -1, states.shape[3])
            kept, nothing = (state.sums[0], state.lines[0]), torch.zeros_like(is_end)
            states = self.stretch_norm(states, (rows, groups), kept, (is_group, nothing))
            states = self._decoded(states, place, state)
        mels = self._mels(states, place, (counts, is_end), state)
        groups = place[1] - self.mel_norm.num_ahead
        span = _span(rows, groups, num_groups[:, None], self.config.group_mels)
        states = self.vocoder(self.embedding(mels), span, state.vocoder)
        span = span.moved(self.vocoder.delay)
        state.ticks[slots] = ticks + num_counted
        return self._samples(states, span, state.windows, num_counted[:, None])

    @property
    def _num_before(self) -> int:
        """Positions before a group on which its mel spectrogram depends."""
        stride = self.config.decoder_stride
        return -(-(self.config.decoder_kernel_size - stride) // stride)

    def _embedded(self, codes: Tensor) -> Tensor:
        known = torch.minimum(codes, self.sizes - 1)  # the empty code of text has no vector
        return F.embedding(known + self.offsets, self.table).sum(-2)

    def _decoded(
        self, states: Tensor, place: tuple[Tensor, Tensor, Tensor], state: CodecState
    ) -> Tensor:
        """Run the decoder's layers; see `_mels`.

        Args:
            states: states of the groups, ``[num_rows, n, hidden_size]``.
        """
        span = _span(*place, self.config.group_positions)
        states = self.norm(self.decoder(states, span, state.decoder))
        # Zeros surround a stream: the last mel frames reach beyond its last group.
        positions = span.positions(states.shape[1])
        is_inside = (positions >= 0) & (positions < span.end)
        return torch.where(is_inside[:, :, None], states, 0.0)

    def _mels(
        self,
        states: Tensor,
        place: tuple[Tensor, Tensor, Tensor],
        flags: tuple[Tensor, Tensor],
        state: CodecState,
    ) -> Tensor:
        """Return the normalised mel spectrogram of earlier groups of each row.

        Args:
            states: states from `_decoded`.
            place: slots, group numbers, and number of groups.
            flags: whether each group of the pass is valid, and whether it is past the end.
        """
        (slots, groups, num_groups), (counts, is_end) = place, flags
        count, num_before = self.config.group_positions, self._num_before
        ring = state.last.shape[1]
        before = state.last[slots[:, 0], (groups[:, 0] - 1) % ring]
        lasts = torch.unflatten(states, 1, (-1, count))[:, :, -num_before:]
        state.last[slots, groups % ring] = lasts
        before = torch.where((groups[:, 0] > 0)[:, None, None], before, 0.0)
        states = torch.cat((before, states), dim=1)
        stride = self.config.decoder_stride
        made = F.conv_transpose1d(states.transpose(1, 2), self.mel_weight, self.mel_bias, stride)
        # Groups side by side with the frames beyond them: [num_rows, groups, n, channels].
        num_beyond = self.config.decoder_kernel_size - stride
        num_mels = self.config.group_mels
        made = made[:, :, num_before * stride :].unfold(2, num_mels + num_beyond, num_mels)
        made = made.permute(0, 2, 3, 1)
        is_valid = counts & (groups >= 0) & (groups < num_groups)
        is_last = is_valid & is_end & (groups == num_groups - 1)
        kept = (state.sums[-1], state.lines[-1])
        return self.mel_norm(made, (slots, groups), kept, (is_valid, is_last))

    def _samples(self, states: Tensor, span: Span, kept: Tensor, num_counted: Tensor) -> Tensor:
        """Return samples, and the bounds of those to return; see `tick`."""
        overlap, count = self.overlap, states.shape[1]
        num_kept, num_before = kept.shape[1], overlap.num_hops - 1
        windows = overlap.windows(self.head(self.vocoder_norm(states)))
        kept[span.slots, span.positions(count) % num_kept] = windows
        positions = span.positions(num_kept) - num_before
        is_valid = (positions >= 0) & (positions < span.end)
        samples = overlap.added(kept[span.slots, positions % num_kept], is_valid)
        first = span.start * overlap.hop - overlap.padding
        bounds = torch.cat((-first, span.end * overlap.hop - first), dim=1).clamp(min=0)
        bounds = torch.minimum(bounds, num_counted * self.config.samples_per_group)
        return torch.cat((samples.clamp(-1.0, 1.0), bounds.to(samples.dtype)), dim=1)


def _in_front(codes: Tensor, flags: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return codes and both flags: groups first, then those past the end, then invalid ones."""
    is_group, is_end = flags.unbind(2)
    kinds = torch.where(is_group, 0, torch.where(is_end, 1, 2))
    kinds, order = kinds.sort(dim=1, stable=True)
    rows = torch.arange(len(codes), device=codes.device)[:, None]
    return codes[rows, order], kinds == 0, kinds == 1


def _span(slots: Tensor, groups: Tensor, num_groups: Tensor, count: int) -> Span:
    return Span(slots, groups[:, :1] * count, num_groups * count)
