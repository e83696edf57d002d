"""Headers of all tensors of a checkpoint's directory, quantised or not."""

from pathlib import Path

from antiphon.contracts.config_file import quantized_error
from antiphon.errors import ModelLoadError
from antiphon.nn.quantized.gguf_tensors import INDEX, read_index
from antiphon.nn.quantized.packed_headers import Stored, with_packed
from antiphon.nn.quantized.quantization import read_quantization
from antiphon.nn.safetensors_index import STEM, read_tensor_headers, some, tensor_files

# Methods by the last parts of the names of their tensors.
_QUANTIZED = {"qweight": "AWQ or GPTQ", "absmax": "bitsandbytes", "SCB": "bitsandbytes"}
_QUANTIZED |= {"weight_scale_inv": "FP8", "weight_scale": "FP8 or int8"}
_QUANTIZED |= {"weight_packed": "compressed-tensors"}


def read_directory(directory: Path, stem: str = STEM) -> dict[str, Stored]:
    """Return the tensors of a directory by name, each with its file; raises ModelLoadError."""
    if stem == STEM and (directory / INDEX).is_file():
        return read_index(directory)
    tensors: dict[str, Stored] = {}
    for file in tensor_files(directory, stem):
        found = {header.name: (file, header) for header in read_tensor_headers(file)}
        if twice := tensors.keys() & found.keys():
            raise ModelLoadError(f"{file}: another file holds {some(twice)} too")
        tensors |= found
    config = read_quantization(directory)
    if config is not None:
        tensors = with_packed(directory, tensors, config)
    for name in tensors:
        if method := _QUANTIZED.get(name.rpartition(".")[2]):
            raise quantized_error(directory, method)
    return tensors
