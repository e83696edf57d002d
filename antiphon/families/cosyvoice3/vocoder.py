"""Causal HiFT vocoder from mel frames to samples, whose state is carried between calls.

A neural source-filter model: a small network predicts the pitch, tones and noise form the source,
and upsampling convolutions filter its spectrum. Parameter names are the checkpoint's.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.cosyvoice3.config import VocoderConfig
from antiphon.families.cosyvoice3.spectrum import StreamSpectrum
from antiphon.families.cosyvoice3.stream_conv import StreamConv, StreamState
from antiphon.families.kit.dac.layers import snake_of
from antiphon.nn import kernels
from antiphon.nn.layers import Linear, Snake, Weights
from antiphon.nn.sampler import uniform_noise

_TURNS = "source.turns"
_NOISE_SEED = 3
PITCH_LOOK_AHEAD = 3
"""Mel frames after a frame on which its pitch depends: the first convolution has 4 taps."""
LOOK_AHEAD_MEL_FRAMES = 5
"""Mel frames after a frame on which its samples depend."""

_LAST_SLOPE = 0.01
_PITCH_LAYERS = (0, 2, 4, 6, 8)


@dataclass(frozen=True, slots=True)
class ToneSource:
    """Tones at the pitch in voiced frames, noise in unvoiced ones.

    As in training, a tone's phase is constant within a mel frame and advances by one frame length
    between frames. Noise is uniform from 0 to 1 and the same for every stream: it depends only on
    the frame number.

    Attributes:
        mix: projection of the tones to one signal.
    """

    config: VocoderConfig
    mix: Linear

    def __call__(self, pitch_hz: Tensor, noise: Tensor, state: StreamState) -> Tensor:
        """Return the samples of the next mel frames, f32 ``[num_rows, num_samples]``.

        Args:
            pitch_hz: pitch, f32 ``[num_rows, num_frames]``.
            noise: noise from `source_noise`.
        """
        config = self.config
        num_tones = config.num_overtones + 1
        multiples = torch.arange(1, num_tones + 1, device=pitch_hz.device)
        turns = (pitch_hz[:, :, None] * multiples / config.sample_rate_hz) % 1  # a sample
        turns = turns.double() * config.samples_per_mel_frame
        before = state.get(_TURNS)
        if before is None:
            before = turns.new_zeros(len(turns), 1, num_tones)
        phases = (before + turns.cumsum(1)) % 1
        state[_TURNS] = phases[:, -1:].clone() if phases.shape[1] else before
        is_voiced = (pitch_hz > config.min_voiced_hz)[:, :, None]
        tones = torch.sin(phases * (2 * math.pi)).float() * config.sine_level
        level = torch.where(is_voiced, config.voiced_noise, config.sine_level / 3)
        mixed = torch.where(is_voiced, tones, 0.0)[..., None] + level[..., None] * noise
        return torch.tanh(self.mix(mixed.transpose(2, 3))).flatten(1)


def source_noise(first_frames: Tensor, num_frames: int, config: VocoderConfig) -> Tensor:
    """Return the noise of mel frames, starting at each of ``first_frames``, int64 ``[num_rows]``.

    It is f32 ``[num_rows, num_frames, num_tones, samples_per_mel_frame]``.
    """
    device = first_frames.device
    frames = (first_frames[:, None] + torch.arange(num_frames, device=device)).flatten()
    seeds = torch.full((len(frames), 2), _NOISE_SEED, device=device)
    tones = torch.arange(config.num_overtones + 1, device=device)
    if kernels.run_on(first_frames):
        from antiphon.nn.kernels import sampling

        noise = sampling.uniform(seeds, frames, tones, config.samples_per_mel_frame)
    else:
        noise = uniform_noise(seeds, frames, tones, config.samples_per_mel_frame)
    return noise.view(len(first_frames), num_frames, *noise.shape[1:])


@dataclass(frozen=True, slots=True)
class PitchNetwork:
    """Pitch in Hz of mel frames, in float64: rounding would accumulate in the source's phase."""

    convs: tuple[StreamConv, ...]
    last: Linear

    @classmethod
    def of(cls, weights: Weights) -> "PitchNetwork":
        own = [name for name in weights if name.startswith("f0_predictor")]
        precise = {name: weights[name].double() for name in own}
        names = [f"f0_predictor.condnet.{layer}" for layer in _PITCH_LAYERS]
        first = StreamConv.of(precise, names[0], look_ahead=PITCH_LOOK_AHEAD)
        rest = (StreamConv.of(precise, name) for name in names[1:])
        return cls((first, *rest), Linear.of(precise, "f0_predictor.classifier"))

    def __call__(self, mel: Tensor, state: StreamState, *, is_end: bool) -> Tensor:
        """Return f32 ``[num_rows, n]`` for mel frames ``[num_rows, num_mels, num_frames]``."""
        hidden = mel.double()
        for conv in self.convs:
            hidden = F.elu(conv(hidden, state, is_end=is_end))
        return self.last(hidden.transpose(1, 2)).abs().float()[..., 0]


@dataclass(frozen=True, slots=True)
class SnakeBlock:
    """Residual pairs of convolutions with periodic activations.

    Attributes:
        pairs: two convolutions and the activations before them.
    """

    pairs: tuple[tuple[StreamConv, StreamConv, Snake, Snake], ...]

    @classmethod
    def of(cls, weights: Weights, name: str, dilations: Sequence[int]) -> "SnakeBlock":
        pairs = []
        for index, dilation in enumerate(dilations):
            first = StreamConv.of(weights, f"{name}.convs1.{index}", dilation=dilation)
            second = StreamConv.of(weights, f"{name}.convs2.{index}")
            snakes = [snake_of(weights, f"{name}.activations{part}.{index}") for part in (1, 2)]
            pairs.append((first, second, snakes[0], snakes[1]))
        return cls(tuple(pairs))

    def __call__(self, columns: Tensor, state: StreamState) -> Tensor:
        for first, second, first_snake, second_snake in self.pairs:
            hidden = first(_snake(columns, first_snake), state)
            columns = columns + second(_snake(hidden, second_snake), state)
        return columns


AnyBlock: TypeAlias = Callable[[Tensor, StreamState], Tensor]
"""A `SnakeBlock` or an equivalent kernel."""


@dataclass(frozen=True, slots=True)
class VocoderStage:
    """An upsampling, the source added after it, and blocks whose outputs are averaged."""

    rate: int
    upsampling: StreamConv
    source: StreamConv
    source_block: AnyBlock
    blocks: tuple[AnyBlock, ...]

    def __call__(
        self, columns: Tensor, spectra: Tensor, state: StreamState, *, is_mirrored: bool
    ) -> Tensor:
        """Return the columns; ``is_mirrored`` prepends the second column to the first one."""
        columns = self.upsampling(columns.repeat_interleave(self.rate, dim=2), state)
        if is_mirrored:
            columns = torch.cat((columns[:, :, 1:2], columns), dim=2)
        columns = columns + self.source_block(self.source(spectra, state), state)
        total = self.blocks[0](columns, state)
        for block in self.blocks[1:]:
            total = total + block(columns, state)
        return total / len(self.blocks)


@dataclass(frozen=True, slots=True)
class Vocoder:
    """The vocoder, whose streams are kept in a `StreamState`."""

    config: VocoderConfig
    pitch: PitchNetwork
    source: ToneSource
    spectrum: StreamSpectrum
    first: StreamConv
    stages: tuple[VocoderStage, ...]
    last: StreamConv

    @classmethod
    def of(
        cls, weights: Weights, config: VocoderConfig, *, splits_products: bool = False
    ) -> "Vocoder":
        """Build the network from a checkpoint's tensors, in float32 and on one device.

        Args:
            splits_products: whether most products on a GPU may be sums of float16 products, with
                22 of the 24 bits of float32.
        """
        window = torch.hann_window(config.fft_size, device=weights["conv_pre.weight"].device)
        return cls(
            config=config,
            pitch=PitchNetwork.of(weights),
            source=ToneSource(config, Linear.of(weights, "m_source.l_linear")),
            spectrum=StreamSpectrum.of(window, config.hop_samples),
            first=StreamConv.of(weights, "conv_pre", look_ahead=config.look_ahead_frames),
            stages=_stages(weights, config, splits_products=splits_products),
            last=StreamConv.of(weights, "conv_post"),
        )

    def decode(
        self,
        mel: Tensor,
        first_frames: Tensor,
        state: StreamState,
        num_there: Tensor | None = None,
    ) -> Tensor:
        """Return the samples that later mel frames cannot change.

        Args:
            mel: next mel frames, f32 ``[num_rows, num_mels, num_frames]``; in a stream's first
                call, more than `LOOK_AHEAD_MEL_FRAMES`, or all.
            first_frames: number of each row's first mel frame, int64 ``[num_rows]``.
            state: state of the streams, which must be fresh for all or for none; updated.
            num_there: number of valid mel frames of streams that end, int64 ``[num_rows]``, before
                zeros whose samples are undefined; ``None``: they go on.

        Returns:
            f32 ``[num_rows, num_samples]``.
        """
        config, is_first, is_end = self.config, not state, num_there is not None
        num_samples = num_hops = None
        if num_there is not None:
            hops = config.samples_per_mel_frame // config.hop_samples
            before = (0, 0) if is_first else (PITCH_LOOK_AHEAD, config.look_ahead_frames)
            num_samples = (num_there + before[0]) * config.samples_per_mel_frame
            num_hops = (num_there + before[1]) * hops + is_first
        pitch_hz = self.pitch(mel, state, is_end=is_end)
        first_pitches = (first_frames - PITCH_LOOK_AHEAD).clamp(min=0)
        noise = source_noise(first_pitches, pitch_hz.shape[1], config)
        source = self.source(pitch_hz, noise, state)
        columns = self.first(mel, state, is_end=is_end)
        num_spectra = columns.shape[2] * (config.samples_per_mel_frame // config.hop_samples)
        spectra = self.spectrum.analyze(source, num_spectra + is_first, state, num_samples)
        for index, stage in enumerate(self.stages):
            is_mirrored = is_first and index + 1 == len(self.stages)
            columns = F.leaky_relu(columns, config.slope)
            columns = stage(columns, spectra, state, is_mirrored=is_mirrored)
        columns = self.last(F.leaky_relu(columns, _LAST_SLOPE), state)
        parts = columns.transpose(1, 2).tensor_split((config.fft_size // 2 + 1,), dim=2)
        phases = torch.sin(parts[1])
        samples = self.spectrum.synthesize(parts[0], phases, state, num_hops)
        return samples.clamp(-config.max_level, config.max_level)


def _stages(
    weights: Weights, config: VocoderConfig, *, splits_products: bool
) -> tuple[VocoderStage, ...]:
    has_kernels = kernels.run_on(weights["conv_pre.weight"])
    if has_kernels:
        from antiphon.families.cosyvoice3.vocoder_fused import FusedSnakeBlock, SplitStreamConv

    def block(name: str, dilations: Sequence[int]) -> AnyBlock:
        made = SnakeBlock.of(weights, name, dilations)
        if not has_kernels:
            return made
        return FusedSnakeBlock.of(made.pairs, splits_products=splits_products)

    def upsampling(name: str) -> StreamConv:
        made = StreamConv.of(weights, name)
        return SplitStreamConv.like(made) if has_kernels and splits_products else made

    strides, num_blocks = config.source_strides, len(config.kernel_sizes)
    return tuple(
        VocoderStage(
            rate=rate,
            upsampling=upsampling(f"ups.{index}"),
            source=StreamConv.of(weights, f"source_downs.{index}", stride=strides[index]),
            source_block=block(f"source_resblocks.{index}", config.source_dilations[index]),
            blocks=tuple(
                block(f"resblocks.{index * num_blocks + number}", dilations)
                for number, dilations in enumerate(config.dilations)
            ),
        )
        for index, rate in enumerate(config.upsample_rates)
    )


def _snake(columns: Tensor, snake: Snake) -> Tensor:
    waves = torch.sin(columns * snake.frequency[:, None]).square()
    return columns + waves * snake.amplitude[:, None]
