"""ECAPA-TDNN, a speaker encoder: a recording to one vector (Desplanques et al., 2020).

Inputs are whole recordings, one at a time or several in a padded batch. Activations are ``[B,
channels, t]``; ``lengths`` holds the rows' lengths, or ``None`` if no row is padded.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn.codec_layers.conv import PaddedConv
from antiphon.nn.layer_configs import EcapaConfig
from antiphon.nn.layers import Weights
from antiphon.nn.mel import FFT_SIZE, HOP_SAMPLES, log_mel
from antiphon.nn.row_lengths import RowLengths

_MIN_VARIANCE = 1e-12


@dataclass(frozen=True, slots=True)
class EcapaBlock:
    """Res2Net block: convolutions per channel group between two mixers, with channel attention.

    Attributes:
        groups: convolutions of all groups but the first; each also takes the previous group's
            output.
        squeeze: bottleneck of the channels' means over time.
        excite: bottleneck to a weight for each channel.
    """

    mix_in: PaddedConv
    groups: tuple[PaddedConv, ...]
    mix_out: PaddedConv
    squeeze: PaddedConv
    excite: PaddedConv

    @classmethod
    def of(cls, weights: Weights, name: str, config: EcapaConfig, dilation: int) -> "EcapaBlock":
        return cls(
            mix_in=_conv(weights, f"{name}.tdnn1.conv"),
            groups=tuple(
                _conv(weights, f"{name}.res2net_block.blocks.{index}.conv", dilation)
                for index in range(config.res2net_scale - 1)
            ),
            mix_out=_conv(weights, f"{name}.tdnn2.conv"),
            squeeze=_conv(weights, f"{name}.se_block.conv1"),
            excite=_conv(weights, f"{name}.se_block.conv2"),
        )

    def __call__(self, x: Tensor, lengths: RowLengths | None) -> Tensor:
        untouched, *groups = F.relu(self.mix_in(x)).chunk(len(self.groups) + 1, dim=1)
        results = [untouched]
        for index, (conv, group) in enumerate(zip(self.groups, groups, strict=True)):
            results.append(F.relu(conv(group + results[-1] if index else group, lengths)))
        hidden = F.relu(self.mix_out(torch.cat(results, dim=1)))
        mean = hidden.mean(dim=2, keepdim=True) if lengths is None else lengths.mean(hidden)
        squeezed = F.relu(self.squeeze(mean))
        return x + hidden * torch.sigmoid(self.excite(squeezed))


@dataclass(frozen=True, slots=True)
class AttentivePooling:
    """Mean and deviation over time, with attention weights per channel."""

    listen: PaddedConv
    weigh: PaddedConv

    def __call__(self, x: Tensor, lengths: RowLengths | None) -> Tensor:
        """Map ``[B, num_channels, t]`` to ``[B, 2 * num_channels, 1]``."""
        mask = None if lengths is None else lengths.mask(x.shape[2])
        if lengths is None or mask is None:
            equal = torch.full_like(x, 1.0 / x.shape[2])
        else:
            equal = torch.where(mask, 1.0 / lengths.columns[:, None, None].to(x.dtype), 0.0)
        mean, deviation = _statistics(x, equal)
        context = torch.cat((x, mean.expand_as(x), deviation.expand_as(x)), dim=1)
        scores = self.weigh(torch.tanh(F.relu(self.listen(context))))
        if mask is not None:
            scores = torch.where(mask, scores, -torch.inf)
        return torch.cat(_statistics(x, F.softmax(scores, dim=2)), dim=1)


@dataclass(frozen=True, slots=True)
class EcapaEncoder:
    """Encoder of a recording to a speaker vector."""

    first: PaddedConv
    blocks: tuple[EcapaBlock, ...]
    aggregate: PaddedConv
    pool: AttentivePooling
    project: PaddedConv
    config: EcapaConfig

    @classmethod
    def of(cls, weights: Weights, name: str, config: EcapaConfig) -> "EcapaEncoder":
        """Read ``name`` from a checkpoint's tensors, all of one type and on one device."""
        blocks = (
            EcapaBlock.of(weights, f"{name}.blocks.{index}", config, dilation)
            for index, dilation in enumerate(config.dilations[1:-1], 1)
        )
        return cls(
            first=_conv(weights, f"{name}.blocks.0.conv", config.dilations[0]),
            blocks=tuple(blocks),
            aggregate=_conv(weights, f"{name}.mfa.conv", config.dilations[-1]),
            pool=AttentivePooling(
                _conv(weights, f"{name}.asp.tdnn.conv"), _conv(weights, f"{name}.asp.conv")
            ),
            project=_conv(weights, f"{name}.fc"),
            config=config,
        )

    @property
    def min_samples(self) -> int:
        """Shortest recording whose frames can be padded by reflection."""
        groups = (conv for block in self.blocks for conv in block.groups)
        widest = max(conv.num_padded // 2 for conv in (self.first, self.aggregate, *groups))
        return max((widest + 1) * HOP_SAMPLES, FFT_SIZE)

    @torch.no_grad()
    def embed(self, samples: Tensor) -> Tensor:
        """Return the vector of one recording.

        Args:
            samples: float32 ``[num_samples]``, at least `min_samples`, mono at
                ``config.sample_rate_hz``, on the encoder's device.

        Returns:
            ``[embedding_size]`` in the weights' dtype.
        """
        mels = log_mel(samples, self.config.mel_dim, self.config.sample_rate_hz)
        return self.pooled(mels.T[None].to(self.project.weight.dtype))[0, :, 0]

    def pooled(self, x: Tensor, lengths: RowLengths | None = None) -> Tensor:
        """Map log-mel spectrograms ``[B, mel_dim, t]`` to ``[B, embedding_size, 1]``.

        On a CPU, a row's vector is, up to rounding, the same whether rows are padded or alone. It
        does not depend on other rows, nor on columns after its own frames.
        """
        x = F.relu(self.first(x, lengths))
        outputs = []
        for block in self.blocks:
            x = block(x, lengths)
            outputs.append(x)
        x = F.relu(self.aggregate(torch.cat(outputs, dim=1), lengths))
        return self.project(self.pool(x, lengths))


def _conv(weights: Weights, name: str, dilation: int = 1) -> PaddedConv:
    """Return a convolution that keeps the length, with reflected ends."""
    return PaddedConv.of(weights, name, dilation=dilation, is_causal=False, pad_mode="reflect")


def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return weighted mean and deviation over time, ``[B, C, 1]`` each."""
    mean = (weights * x).sum(dim=2, keepdim=True)
    variance = (weights * (x - mean).square()).sum(dim=2, keepdim=True)
    return mean, variance.clamp(min=_MIN_VARIANCE).sqrt()
