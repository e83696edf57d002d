"""Random weights in place of a checkpoint's files, drawn on the device while a model is built."""

import math
import re
import zlib
from collections.abc import Mapping

import torch
from torch import Tensor

from antiphon.nn.safetensors_index import Shape, TensorHeader

# Mean and standard deviation by tensor name; the first match applies.
_NEAR = (
    (r".*\.(initialized|inited|cluster_usage|cluster_size)", 1.0, 0.0),
    (r".*\.(scale|gamma)", 0.3, 0.05),
    (r".*\.(alpha|beta)", 1.0, 0.1),
    (r".*\.weight_g", 0.5, 0.05),
    (r".*\.weight_v", 0.0, 1.0),
    (r".*\.bias", 0.0, 0.05),
    (r".*(norm\d*|gain)\.weight|.*scale_embed\.weight", 1.0, 0.1),
)
# Tables of embeddings; names of projections of the same words end otherwise, have more axes, or are
# a vocoder's.
_TABLE = re.compile(
    r".*(embed_tokens|_embed|(?<!vocoder\.)embeddings?|codebook)(\.\d+)?\.weight"
    r"|.*codebook\.embed\w*|.*\.class_embedding"
)
_TABLE_STD = 0.5
_CONV_GAIN, _GAIN = 0.5, 1.0
"""Gain of convolutions, whose activations add power, and of other matrices."""
_FLOAT_BYTES = 4


class DrawnTensors:
    """Tensors of a layout; values depend only on the name, the shape and the kind of device."""

    def __init__(self, layout: Mapping[str, Shape], like: Tensor) -> None:
        """Store the layout of tensors to be drawn in the type and on the device of ``like``."""
        self._layout = layout
        self._like = like

    def headers(self) -> dict[str, TensorHeader]:
        """Return the headers of a float32 file of these tensors."""
        return {
            name: TensorHeader(name, "F32", shape, _FLOAT_BYTES * math.prod(shape), 0)
            for name, shape in self._layout.items()
        }

    def get_tensor(self, name: str) -> Tensor:
        """Return a tensor, the same at each call."""
        shape = self._layout[name]
        mean, std = _distribution(name, shape)
        generator = torch.Generator(self._like.device).manual_seed(zlib.crc32(name.encode()))
        half_width = std * math.sqrt(3)
        empty = torch.empty(shape, dtype=self._like.dtype, device=self._like.device)
        return empty.uniform_(mean - half_width, mean + half_width, generator=generator)


def _distribution(name: str, shape: Shape) -> tuple[float, float]:
    """Return mean and standard deviation that make signals neither vanish nor overflow."""
    for pattern, mean, std in _NEAR:
        if re.fullmatch(pattern, name):
            return mean, std
    if len(shape) <= 2 and _TABLE.fullmatch(name):
        return 0.0, _TABLE_STD
    if len(shape) < 2:
        return 1.0, 0.1
    gain = _GAIN if len(shape) == 2 else _CONV_GAIN
    return 0.0, gain / math.sqrt(math.prod(shape[1:]))
