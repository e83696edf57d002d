"""Layers of the codec, with the names of the official checkpoint; all are causal.

They map ``[B, channels, t]``, except transformer layers: ``[B, t, width]``.
"""

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor, nn

from antiphon_training.sizes import DILATIONS, NORM_EPSILON, ROPE_THETA

_LAYER_SCALE = 0.01


class CausalConv(nn.Module):
    """Convolution of the current and past columns."""

    def __init__(
        self, num_in: int, num_out: int, kernel_size: int, *, dilation: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(num_in, num_out, kernel_size, dilation=dilation, groups=groups)
        self._num_before = (kernel_size - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.pad(x, (self._num_before, 0)))  # type: ignore[no-any-return]


class StridedConv(nn.Module):
    """Convolution that keeps one column of ``stride``; the last stride is completed with zeros."""

    def __init__(
        self, num_in: int, num_out: int, stride: int, *, bias: bool = True, mode: str = "constant"
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(num_in, num_out, 2 * stride, stride, bias=bias)
        self._stride, self._mode = stride, mode

    def forward(self, x: Tensor) -> Tensor:
        padded = F.pad(x, (self._stride, -x.shape[2] % self._stride), self._mode)
        return self.conv(padded)  # type: ignore[no-any-return]


class CausalTransposedConv(nn.Module):
    """Upsampling by ``stride`` from each column and, with a longer kernel, those before it."""

    def __init__(self, num_in: int, num_out: int, stride: int, kernel_size: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(num_in, num_out, kernel_size, stride)
        self._num_trimmed = kernel_size - stride

    def forward(self, x: Tensor) -> Tensor:
        result = self.conv(x)
        return result[:, :, : result.shape[2] - self._num_trimmed]  # type: ignore[no-any-return]


class _SnakeFunction(torch.autograd.Function):
    """Snake that keeps only its input for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, frequency: Tensor, amplitude: Tensor) -> Tensor:
        ctx.save_for_backward(x, frequency, amplitude)
        wave = (x.float() * frequency).sin_().square_()
        return torch.addcmul(x.float(), wave, amplitude).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, frequency, amplitude = ctx.saved_tensors
        grad, x = grads[0].float(), x.float()
        angle = x * frequency
        slope = torch.sin(2 * angle)  # derivative of the squared sine
        of_amplitude = (grad * angle.sin_().square_()).sum((0, 2))[:, None]
        slope_grad = slope.mul_(grad)
        of_frequency = (slope_grad * x).sum((0, 2))[:, None] * amplitude
        of_x = torch.addcmul(grad, slope_grad, frequency * amplitude)
        return of_x.to(grads[0].dtype), of_frequency, of_amplitude


class SnakeBeta(nn.Module):
    """``x + sin(x * exp(alpha))^2 / exp(beta)`` per channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(width))
        self.beta = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        frequency, amplitude = self.alpha.exp(), 1.0 / (self.beta.exp() + 1e-9)
        result = _SnakeFunction.apply(x, frequency[:, None], amplitude[:, None])  # type: ignore[no-untyped-call]
        assert isinstance(result, Tensor)
        return result


class ConvNeXtBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.dwconv = CausalConv(width, width, 7, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1 = nn.Linear(width, 4 * width)
        self.pwconv2 = nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.full((width,), 1e-2))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norm(self.dwconv(x).transpose(1, 2))
        hidden = self.gamma * self.pwconv2(F.gelu(self.pwconv1(hidden)))
        return x + hidden.transpose(1, 2)  # type: ignore[no-any-return]


class SnakeUnit(nn.Module):
    """Residual unit of the decoder."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.act1 = SnakeBeta(width)
        self.conv1 = CausalConv(width, width, 7, dilation=dilation)
        self.act2 = SnakeBeta(width)
        self.conv2 = CausalConv(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv2(self.act2(self.conv1(self.act1(x))))  # type: ignore[no-any-return]


class UpsamplingBlock(nn.Module):
    def __init__(self, num_in: int, num_out: int, rate: int) -> None:
        super().__init__()
        upsample = CausalTransposedConv(num_in, num_out, rate, 2 * rate)
        units = (SnakeUnit(num_out, dilation) for dilation in DILATIONS)
        self.block = nn.Sequential(SnakeBeta(num_in), upsample, *units)

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x)  # type: ignore[no-any-return]


class EluUnit(nn.Module):
    """Residual unit of the encoder; the activations are members for the sake of the numbers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        first, second = CausalConv(width, width // 2, 3), CausalConv(width // 2, width, 1)
        self.block = nn.Sequential(nn.ELU(), first, nn.ELU(), second)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(x)  # type: ignore[no-any-return]


class Attention(nn.Module):
    def __init__(self, width: int, num_heads: int, head_dim: int) -> None:
        super().__init__()
        inner = num_heads * head_dim
        self.q_proj = nn.Linear(width, inner, bias=False)
        self.k_proj = nn.Linear(width, inner, bias=False)
        self.v_proj = nn.Linear(width, inner, bias=False)
        self.o_proj = nn.Linear(inner, width, bias=False)
        self._head_dim = head_dim

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        heads = (
            torch.unflatten(projected(x), 2, (-1, self._head_dim)).transpose(1, 2)
            for projected in (self.q_proj, self.k_proj, self.v_proj)
        )
        queries, keys, values = heads
        queries, keys = _rotate(queries, rotation), _rotate(keys, rotation)
        attended = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, is_causal=mask is None
        )
        return self.o_proj(attended.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class GatedMLP(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))  # type: ignore[no-any-return]


class GeluMLP(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, inner, bias=False)
        self.fc2 = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))  # type: ignore[no-any-return]


class LayerScale(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), _LAYER_SCALE))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


class TransformerLayer(nn.Module):
    """Layer of the encoder (LayerNorm and GELU) or of the decoder (RMSNorm and SwiGLU)."""

    def __init__(
        self, width: int, inner: int, num_heads: int, head_dim: int, *, is_gated: bool
    ) -> None:
        super().__init__()
        norm = nn.RMSNorm if is_gated else nn.LayerNorm
        self.input_layernorm = norm(width, eps=NORM_EPSILON)
        self.self_attn = Attention(width, num_heads, head_dim)
        self.self_attn_layer_scale = LayerScale(width)
        self.post_attention_layernorm = norm(width, eps=NORM_EPSILON)
        self.mlp = GatedMLP(width, inner) if is_gated else GeluMLP(width, inner)
        self.mlp_layer_scale = LayerScale(width)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        attended = self.self_attn(self.input_layernorm(x), rotation, mask)
        x = x + self.self_attn_layer_scale(attended)
        return x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))  # type: ignore[no-any-return]


def rotation_of(num_positions: int, head_dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return cosines and sines, float32 ``[num_positions, head_dim]``."""
    exponents = torch.arange(0, head_dim, 2, device=device).float() / head_dim
    positions = torch.arange(num_positions, device=device).float()
    angles = (positions[:, None] / ROPE_THETA**exponents).repeat(1, 2)
    return angles.cos(), angles.sin()


def window_mask(num_frames: int, window_frames: int, device: torch.device) -> Tensor | None:
    """Return which frames a frame attends to, bool ``[n, n]``; ``None``: all before it."""
    if num_frames <= window_frames:
        return None
    ones = torch.ones(num_frames, num_frames, dtype=torch.bool, device=device)
    return ones.tril() & ones.triu(1 - window_frames)


def _rotate(heads: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    cosines, sines = (each.to(heads.dtype) for each in rotation)
    first, second = heads.chunk(2, dim=3)
    return heads * cosines + torch.cat((-second, first), dim=3) * sines
