"""Files of weights are mapped anew while they are read, and tensors outlive their mapping."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from antiphon.errors import ModelLoadError
from antiphon.nn.cpu import mapped_file
from antiphon.nn.cpu.mapped_file import MappedFile


def num_mapped(path: Path) -> int:
    return Path("/proc/self/maps").read_text(encoding="utf-8").count(path.name)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists mappings")
def test_what_was_read_is_unmapped_unless_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_file, "_MAX_BYTES", 2 * 4 * 10)  # two tensors
    path = tmp_path / "unmapped.safetensors"
    tensors = {f"t{number}": torch.full((10,), float(number)) for number in range(7)}
    save_file(tensors, path)
    trims: list[None] = []
    monkeypatch.setattr(mapped_file, "trim_heap", lambda: trims.append(None))
    file = MappedFile(path)
    kept = file.get_tensor("t0")
    for name, tensor in tensors.items():
        assert torch.equal(file.get_tensor(name), tensor)
    assert num_mapped(path) <= 2
    assert len(trims) == 3
    assert torch.equal(kept, tensors["t0"])
    del kept, file
    assert num_mapped(path) == 0


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.safetensors"
    path.write_bytes(b"no header")
    with pytest.raises(ModelLoadError, match=r"broken\.safetensors: cannot be read"):
        MappedFile(path)
