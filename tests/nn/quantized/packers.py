"""Packers of weights by the descriptions of the formats, and checkpoints of them."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

Parts: TypeAlias = dict[str, Tensor]
Packer: TypeAlias = Callable[[Tensor], Parts]

GROUP = 32
_AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # the output in each four bits of a word


def parted(values: Tensor, size: int) -> Tensor:
    return values.reshape(*values.shape[:-1], -1, size)


def words(values: Tensor, bits: int = 4) -> Tensor:
    """Pack the last dimension into words, the lowest bits first."""
    in_word = 32 // bits
    padded = torch.nn.functional.pad(values.long(), (0, -values.shape[-1] % in_word))
    shifts = torch.arange(0, 32, bits)
    packed = (parted(padded, in_word) << shifts).sum(-1)
    return packed.to(torch.int32).contiguous()


def rounded(weight: Tensor, group: int, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return unsigned values by inputs, and zero points and scales by groups of them."""
    parts = parted(weight, group)
    low, high = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
    scales = ((high - low) / (2**bits - 1)).half().float().clamp_min(1e-5)
    zeros = (-low / scales).round().clamp(0, 2**bits - 1)
    values = (parts / scales[..., None]).round() + zeros[..., None]
    return values.clamp(0, 2**bits - 1).flatten(1), zeros, scales


def awq(weight: Tensor) -> Parts:
    values, zeros, scales = rounded(weight, GROUP, 4)

    def ordered(outputs_last: Tensor) -> Tensor:
        return parted(outputs_last, 8)[..., _AWQ_ORDER].flatten(-2)

    packed = {"qweight": words(ordered(values.T)), "qzeros": words(ordered(zeros.T))}
    return {**packed, "scales": scales.T.half()}


def gptq(weight: Tensor, bits: int = 4, *, acts: bool = False, second: bool = False) -> Parts:
    """Pack as GPTQ.

    Args:
        acts: whether inputs are quantised in another order than theirs ("desc_act").
        second: whether zero points are stored as they are ("gptq_v2").
    """
    num_inputs = weight.shape[1]
    generator = torch.Generator().manual_seed(1)
    order = torch.randperm(num_inputs, generator=generator) if acts else torch.arange(num_inputs)
    values, zeros, scales = rounded(weight[:, order], GROUP, bits)
    groups = torch.arange(num_inputs) // GROUP
    values, groups = values[:, order.argsort()], groups[order.argsort()]
    stored = words(zeros.T, bits)
    if not second:
        stored = stored - sum(2**bit for bit in range(0, 32, bits))
    parts = {"qweight": words(values, bits).T, "qzeros": stored, "scales": scales.T.half()}
    return {**parts, "g_idx": groups.int()}


def packed(weight: Tensor, bits: int = 4, *, has_zeros: bool = False) -> Parts:
    """Pack as pack-quantized of compressed-tensors, whose values are signed, with an offset."""
    offset = 2 ** (bits - 1)
    group = GROUP if weight.shape[1] % GROUP == 0 else weight.shape[1]
    parts = {"weight_shape": torch.tensor(weight.shape)}
    if has_zeros:
        values, zeros, scales = rounded(weight, group, bits)
        parts["weight_zero_point"] = words(zeros.T, bits).T
    else:
        scales = parted(weight, group).abs().amax(-1) / (offset - 1)
        values = (parted(weight, group) / scales[..., None]).round().flatten(1) + offset
    return {**parts, "weight_packed": words(values, bits), "weight_scale": scales}


def int8(weight: Tensor) -> Parts:
    scales = weight.abs().amax(1, keepdim=True) / 127
    return {"weight": (weight / scales).round().to(torch.int8), "weight_scale": scales}


def fp8(weight: Tensor, *, per_tensor: bool = False) -> Parts:
    scales = (weight.abs().amax() if per_tensor else weight.abs().amax(1, keepdim=True)) / 448
    return {"weight": (weight / scales).to(torch.float8_e4m3fn), "weight_scale": scales.float()}


def block_fp8(weight: Tensor, block: tuple[int, int] = (64, 48)) -> Parts:
    rows, columns = (
        torch.arange(size) // step for size, step in zip(weight.shape, block, strict=True)
    )
    scales = torch.zeros(int(rows[-1]) + 1, int(columns[-1]) + 1)
    for row in range(len(scales)):
        for column in range(len(scales[0])):
            part = weight[rows == row][:, columns == column]
            scales[row, column] = part.abs().amax() / 448
    values = (weight / scales[rows][:, columns]).to(torch.float8_e4m3fn)
    return {"weight": values, "weight_scale_inv": scales}


def write(folder: Path, tensors: Mapping[str, Tensor], config: dict[str, Any] | None) -> Path:
    folder.mkdir(exist_ok=True)
    whole = {name: each.contiguous() for name, each in tensors.items()}
    save_file(whole, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"quantization_config": config}))
    return folder


def pack_checkpoint(
    source: Path, folder: Path, packer: Packer, config: dict[str, Any], left: str
) -> None:
    """Write a checkpoint whose projections are packed, but for names that end with ``left``."""
    shutil.copytree(source, folder)
    tensors: dict[str, Tensor] = {}
    for file in folder.glob("model*.safetensors"):
        for name, each in load_file(file).items():
            if name.endswith("_proj.weight") and not name.endswith(left):
                prefix = name.removesuffix("weight")
                tensors |= {prefix + part: value for part, value in packer(each.float()).items()}
            else:
                tensors[name] = each
        file.unlink()
    for index in folder.glob("*.index.json"):
        index.unlink()
    save_file(
        {name: each.contiguous() for name, each in tensors.items()}, folder / "model.safetensors"
    )
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, "quantization_config": config}))
