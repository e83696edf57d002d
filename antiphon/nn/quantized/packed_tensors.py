"""Unpacking of quantised weights, one at a time, to float32 on the device of the model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.nn.quantized.packed_headers import PackedHeader

_MAX_VALUES = 2**22  # converted at a time
_AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Four bits of a word that hold each of its eight outputs."""


class OpenTensors(Protocol):
    def get_tensor(self, name: str) -> Tensor: ...


class PackedTensors:
    """Weights of `PackedHeader`s by name, read as from a file."""

    def __init__(
        self,
        headers: Mapping[str, PackedHeader],
        files: Mapping[Path, OpenTensors],
        device: torch.device,
    ) -> None:
        """Store headers and open files, and the device on which values are computed."""
        self._headers = headers
        self._files = files
        self._device = device

    def get_tensor(self, name: str) -> Tensor:
        """Return a weight in float32, ``[outputs, inputs]``."""
        header = self._headers[name]
        parts = {
            part: self._files[file].get_tensor(stored.name).to(self._device)
            for part, (file, stored) in header.parts.items()
        }
        if header.anchor == "weight_packed":
            return _of_words(header, parts)
        if header.anchor == "qweight":
            return _of_awq(header, parts) if header.is_awq else _of_gptq(header, parts)
        return _scaled(
            header, parts["weight"], parts[header.anchor], parts.get("weight_zero_point")
        )


def _of_awq(header: PackedHeader, parts: Mapping[str, Tensor]) -> Tensor:
    def values(words: Tensor) -> Tensor:
        unpacked = _unpacked(words, header.bits).reshape(len(words), -1, len(_AWQ_ORDER))
        return unpacked[..., _AWQ_ORDER].flatten(-2).T

    return _scaled(header, values(parts["qweight"]), parts["scales"].T, values(parts["qzeros"]))


def _of_gptq(header: PackedHeader, parts: Mapping[str, Tensor]) -> Tensor:
    values = _unpacked(parts["qweight"].T, header.bits)
    # Its second format subtracts from whole words for files of the first: carries are undone too.
    shift = header.zero_shift * sum(2**bit for bit in range(0, 32, header.bits))
    zeros = _unpacked(parts["qzeros"] + shift, header.bits).T
    return _scaled(header, values, parts["scales"].T, zeros, parts.get("g_idx"))


def _of_words(header: PackedHeader, parts: Mapping[str, Tensor]) -> Tensor:
    """Unpack words of compressed-tensors, in which signed values are stored as unsigned."""
    num_outputs, num_inputs = header.shape
    values = _unpacked(parts["weight_packed"], header.bits)[:, :num_inputs]
    zeros = torch.tensor(2 ** (header.bits - 1), device=values.device)
    if "weight_zero_point" in parts:
        zeros = _unpacked(parts["weight_zero_point"].T, header.bits)[:, :num_outputs].T
    return _scaled(header, values, parts["weight_scale"], zeros, parts.get("weight_g_idx"))


def _unpacked(words: Tensor, bits: int) -> Tensor:
    """Return the unsigned values in the last dimension's words, the lowest bits first."""
    values = words.contiguous().view(torch.uint8)
    if bits == 4:
        values = torch.stack((values & 15, values >> 4), dim=-1).flatten(-2)
    return values


def _scaled(
    header: PackedHeader,
    values: Tensor,
    scales: Tensor,
    zeros: Tensor | None = None,
    groups: Tensor | None = None,
) -> Tensor:
    """Return ``(values - zeros) * scales``.

    Args:
        scales: scales by steps of outputs and of inputs; fewer dimensions stand for one of inputs.
        zeros: zero points by the same steps, or one.
        groups: step of each input; ``None``: they follow each other.
    """
    (rows, columns), (row_step, column_step) = header.shape, header.step
    scales = scales.reshape(-(-rows // row_step), -1)
    if zeros is not None and zeros.ndim:
        zeros = zeros.reshape(scales.shape)
    if groups is None:
        groups = torch.arange(columns, device=values.device) // column_step
    elif not 0 <= int(groups.min()) <= int(groups.max()) < scales.shape[1]:
        raise ModelLoadError(f"'{header.name}': its inputs are in groups that have no scale")
    groups = groups.long()
    result = torch.empty(rows, columns, device=values.device)
    num_rows = max(1, _MAX_VALUES // columns)
    for first in range(0, rows, num_rows):
        part = result[first : first + num_rows]
        steps = torch.arange(first, first + len(part), device=values.device) // row_step
        part.copy_(values[first : first + num_rows])
        if zeros is not None:
            part -= (zeros[steps][:, groups] if zeros.ndim else zeros).float()
        part *= scales[steps].float()[:, groups]
    return result
