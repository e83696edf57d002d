"""Layers shared by all decoders, as plain functions of stored weights, without modules or modes.

Weights are passed in, never initialised; all layers accept any leading shape and any device.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn.backends import TorchBackend, backend_of
from antiphon.nn.layer_configs import (
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    RopeScaling,
    TransformerConfig,
    YarnScaling,
)

Weights = Mapping[str, Tensor]
"""Tensors by their names in a checkpoint."""
_NUM_AXES = 3  # Axes of a position in a multimodal rotary embedding: time, height and width


def scaled(frequencies: Tensor, scaling: RopeScaling | None, theta: float) -> Tensor:
    """Return scaled ``frequencies``, radians per position, ``[rotary_dim // 2]``."""
    match scaling:
        case None:
            return frequencies
        case LinearScaling():
            return frequencies / scaling.factor
        case LongRopeScaling():
            return frequencies / torch.tensor(scaling.factors)
        case Llama3Scaling():
            share = _llama3_share(frequencies, scaling)
        case YarnScaling():
            share = _yarn_share(frequencies, scaling, theta)
    return share * frequencies + (1.0 - share) * frequencies / scaling.factor


def amplitude_of(scaling: RopeScaling | None) -> float:
    """Return the amplitude of cosines and sines."""
    if isinstance(scaling, LongRopeScaling):
        return scaling.amplitude
    if not isinstance(scaling, YarnScaling):
        return 1.0
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    return 0.1 * math.log(scaling.factor) + 1.0 if scaling.factor > 1.0 else 1.0


def _llama3_share(frequencies: Tensor, scaling: Llama3Scaling) -> Tensor:
    """Return the unscaled share of each frequency: 1 for short wavelengths."""
    turns = scaling.original_positions * frequencies / (2 * math.pi)  # over the original length
    share = (turns - scaling.low_factor) / (scaling.high_factor - scaling.low_factor)
    return share.clamp(0.0, 1.0)


def _yarn_share(frequencies: Tensor, scaling: YarnScaling, theta: float) -> Tensor:
    """Return the unscaled share of each frequency, linear in its index between whole numbers."""
    num_frequencies = len(frequencies)

    def index_of(num_turns: float) -> float:
        """Return the index of the wavelength with this many turns over the original length."""
        wavelength = scaling.original_positions / num_turns
        return num_frequencies * math.log(wavelength / (2 * math.pi)) / math.log(theta)

    low = max(math.floor(index_of(scaling.beta_fast)), 0)
    high = min(math.ceil(index_of(scaling.beta_slow)), 2 * num_frequencies - 1)
    width = high - low or 0.001
    return 1.0 - ((torch.arange(num_frequencies).float() - low) / width).clamp(0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Linear:
    """``x @ weight.T + bias``; weight ``[num_outputs, num_inputs]``.

    Attributes:
        is_batch_invariant: whether a row's result must not depend on the batch, which on a CPU
            holds for few rows.
        scales: factors of the outputs of an int8 weight on a GPU, float32 ``[num_outputs]``.
    """

    weight: Tensor
    bias: Tensor | None = None
    is_batch_invariant: bool = False
    scales: Tensor | None = None
    backend: TorchBackend = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "backend", backend_of(self.weight))

    @classmethod
    def of(cls, weights: Weights, name: str, *, is_batch_invariant: bool = False) -> "Linear":
        """Read ``name.weight`` and, if present, ``name.bias``."""
        return cls(weights[f"{name}.weight"], weights.get(f"{name}.bias"), is_batch_invariant)

    @classmethod
    def joined(cls, weights: Weights, *names: str) -> "Linear":
        """Stack layers that read the same input into one product.

        If only some have a bias, it is zero for the others.
        """
        parts = [cls.of(weights, name) for name in names]
        weight, bias = torch.cat([each.weight for each in parts]), None
        if any(each.bias is not None for each in parts):
            zeros = [weight.new_zeros(len(each.weight)) for each in parts]
            pairs = zip(zeros, parts, strict=True)
            bias = torch.cat([zero if each.bias is None else each.bias for zero, each in pairs])
        return cls(weight, bias)

    def __call__(self, states: Tensor) -> Tensor:
        if self.is_batch_invariant:
            return self.backend.linear(states, self.weight, self.bias)
        return F.linear(states, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class RMSNorm:
    """Division by the root mean square in f32, then the weight in the states' own type."""

    weight: Tensor
    epsilon: float
    backend: TorchBackend = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "backend", backend_of(self.weight))

    def __call__(self, states: Tensor) -> Tensor:
        return self.backend.rms_norm(states, self.weight, self.epsilon)

    def after(self, states: Tensor, branch: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``states + branch``, and the normed sum."""
        return self.backend.add_rms_norm(states, branch, self.weight, self.epsilon)


@dataclass(frozen=True, slots=True)
class SwiGLU:
    """``down(silu(gate(x)) * up(x))``, gate and up in one product."""

    gate_up: Linear
    down: Linear

    @classmethod
    def of(cls, weights: Weights, name: str) -> "SwiGLU":
        """Read gate and up separately, or joined in ``gate_up_proj`` as in GLM-4."""
        if f"{name}.gate_up_proj.weight" in weights:
            gate_up = Linear.of(weights, f"{name}.gate_up_proj")
        else:
            gate_up = Linear.joined(weights, f"{name}.gate_proj", f"{name}.up_proj")
        return cls(gate_up, Linear.of(weights, f"{name}.down_proj"))

    def __call__(self, states: Tensor) -> Tensor:
        return self.down(self.gate_up.backend.silu_product(self.gate_up(states)))


@dataclass(frozen=True, slots=True)
class Rotation:
    """Cosines and sines of positions, shape ``[..., 1, head_dim]``, shared by all heads."""

    cosines: Tensor
    sines: Tensor

    def __call__(self, heads: Tensor) -> Tensor:
        """Rotate ``[..., num_heads, head_dim]``, each first half paired with the second half."""
        first, second = heads.chunk(2, dim=-1)
        return heads * self.cosines + torch.cat((-second, first), dim=-1) * self.sines


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary position embedding: angles in f32, computed once for all positions.

    Attributes:
        cosines: shape ``[max_positions, head_dim]``, the second half equal to the first.
        sines: same shape.
        axes: axis of a position with which each dimension turns, int64 ``[head_dim]``; ``None``: a
            position is one number.
    """

    cosines: Tensor
    sines: Tensor
    axes: Tensor | None = None

    @classmethod
    def build(cls, config: TransformerConfig, max_positions: int, like: Tensor) -> "Rope":
        """Compute the tables, in the type and on the device of ``like``.

        Dimensions that are not rotated have an angle of 0; see `rotary_order` for where they are.
        """
        theta, num_rotated = config.rope_theta, config.num_rotated
        indices = torch.arange(0, num_rotated, 2, dtype=torch.int64).float()
        frequencies = 1.0 / theta ** (indices / max(num_rotated, 1))
        frequencies = scaled(frequencies, config.rope_scaling, theta)
        still = torch.zeros(config.head_dim // 2 - len(frequencies))
        angles = torch.arange(max_positions).float()[:, None] * torch.cat((frequencies, still))
        angles = torch.cat((angles, angles), dim=-1)
        axes = _axes(config, like.device)
        amplitude = amplitude_of(config.rope_scaling)
        cosines, sines = angles.cos() * amplitude, angles.sin() * amplitude
        return cls(cosines.to(like), sines.to(like), axes)

    def at(self, positions: Tensor) -> Rotation:
        """Return the rotation of ``positions``, an index of any shape.

        If positions have axes, they are the last dimension.
        """
        places: tuple[Tensor, ...] = (positions,)
        if self.axes is not None:
            index = torch.arange(len(self.axes), device=positions.device)
            places = (positions[..., self.axes], index)
        return Rotation(self.cosines[places].unsqueeze(-2), self.sines[places].unsqueeze(-2))

    def between(self, start: int, end: int) -> Rotation:
        """Return the rotation of positions ``start`` to ``end - 1``."""
        return Rotation(self.cosines[start:end, None], self.sines[start:end, None])


def rotary_order(head_dim: int, num_rotated: int) -> list[int]:
    """Return the order of a head's dimensions in which each half is half rotated.

    A checkpoint with a partial rotary embedding pairs dimensions within the first ``num_rotated``;
    `Rotation` pairs the halves of a head. Products of queries and keys do not depend on the order
    of their dimensions, so that weights are put into this order once.
    """
    half, rotated = head_dim // 2, num_rotated // 2
    still = [*range(num_rotated, head_dim)]
    first = [*range(rotated), *still[: half - rotated]]
    return [*first, *range(rotated, num_rotated), *still[half - rotated :]]


def _axes(config: TransformerConfig, device: torch.device) -> Tensor | None:
    """Return the axis with which each dimension of a head turns, ``[head_dim]``."""
    if not config.rope_sections:
        return None
    half = config.head_dim // 2
    axes = [
        index % _NUM_AXES for index, size in enumerate(config.rope_sections) for _ in range(size)
    ]
    axes += [0] * (half - len(axes))  # dimensions that are not rotated
    return torch.tensor([*axes, *axes], device=device)


@dataclass(frozen=True, slots=True)
class Snake:
    """``x + amplitude * sin(frequency * x)^2`` per channel, with float32 factors."""

    frequency: Tensor
    amplitude: Tensor

    @classmethod
    def of(cls, weights: Weights, name: str) -> "Snake":
        """Read ``name.alpha`` and ``name.beta``, which are logarithms."""
        frequency = weights[f"{name}.alpha"].exp()
        return cls(frequency, 1.0 / (weights[f"{name}.beta"].exp() + 1e-9))

    def __call__(self, x: Tensor) -> Tensor:
        wave = (x * self.frequency).sin_().square_()
        return torch.addcmul(x.to(wave.dtype), wave, self.amplitude).to(x.dtype)


def rotary_angles(head_dim: int, theta: float, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of positions, f32 ``[..., head_dim]``, with equal halves."""
    exponents = torch.arange(0, head_dim, 2, device=positions.device).float() / head_dim
    angles = positions[..., None].float() / theta**exponents
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()
