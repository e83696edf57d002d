"""Files of weights of which little stays in memory."""

from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.nn.cpu.heap import trim_heap

_MAX_BYTES = 2**26


class MappedFile:
    """A safetensors file, mapped again after every 64 MiB that are read of it.

    Pages that were read stay in the process's memory as long as their mapping, and that as long as
    its tensors: in one mapping, loading would take the size of the files besides the model.
    """

    def __init__(self, path: Path) -> None:
        """Open the file; raises ModelLoadError."""
        self._path = path
        self._open()

    def get_tensor(self, name: str) -> Tensor:
        if self._num_bytes >= _MAX_BYTES:
            self._open()
            trim_heap()  # of copies that were converted further
        tensor: Tensor = self._file.get_tensor(name)
        self._num_bytes += tensor.nbytes
        return tensor

    def _open(self) -> None:
        try:
            self._file: Any = safe_open(self._path, framework="pt")
        except (OSError, SafetensorError) as error:
            raise ModelLoadError(f"{self._path}: cannot be read: {error}") from error
        self._num_bytes = 0
