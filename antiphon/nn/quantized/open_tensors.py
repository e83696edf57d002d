"""Open files of a checkpoint's tensors, by the headers that a directory has."""

from collections.abc import Mapping
from pathlib import Path

import torch

from antiphon.nn.cpu.mapped_file import MappedFile
from antiphon.nn.quantized.gguf_tensors import GGUFHeader, GGUFTensors
from antiphon.nn.quantized.packed_headers import PackedHeader, Stored
from antiphon.nn.quantized.packed_tensors import OpenTensors, PackedTensors
from antiphon.nn.safetensors_index import TensorHeader


def open_tensors_of(
    stored: Mapping[str, Stored], device: torch.device
) -> dict[str, tuple[TensorHeader, OpenTensors]]:
    """Return each header with what returns its values; raises ModelLoadError.

    Args:
        stored: headers with their files.
        device: device on which quantised values are computed.
    """
    packed = {name: each for name, (_, each) in stored.items() if isinstance(each, PackedHeader)}
    in_gguf = {name: each for name, (_, each) in stored.items() if isinstance(each, GGUFHeader)}
    paths = {file for each in packed.values() for file, _ in each.parts.values()}
    paths |= {file for name, (file, _) in stored.items() if name not in packed.keys() | in_gguf}
    files: dict[Path, OpenTensors] = {path: MappedFile(path) for path in paths}
    files |= {stored[name][0]: GGUFTensors(stored[name][0], in_gguf) for name in in_gguf}
    unpacked = PackedTensors(packed, files, device)
    return {
        name: (header, unpacked if name in packed else files[file])
        for name, (file, header) in stored.items()
    }
