"""Weights of `torch.save` are read as data, whichever way they were normed."""

from pathlib import Path

import pytest
import torch
from torch import nn

from antiphon.errors import ModelLoadError
from antiphon.families.kit.formats.torch_file import TorchPart, joined_weights, read_torch_file


class _Calls:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("code of the file has run",)


@pytest.mark.parametrize("is_mapped", [False, True])
def test_tensors_come_back(tmp_path: Path, is_mapped: bool) -> None:
    file = tmp_path / "a.pth"
    torch.save({"a": {"b": torch.arange(3.0)}}, file)
    assert torch.equal(read_torch_file(file, is_mapped=is_mapped)["a"]["b"], torch.arange(3.0))


def test_what_is_no_data_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.pth"
    torch.save({"a": _Calls()}, file)
    with pytest.raises(ModelLoadError, match=r"a\.pth"):
        read_torch_file(file)
    torch.save({"a": torch.arange(3.0)}, file)
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(ModelLoadError, match=r"a\.pth"):
        read_torch_file(file)
    with pytest.raises(ModelLoadError, match=r"b\.pth"):
        read_torch_file(tmp_path / "b.pth")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("kind", [nn.Conv1d, nn.ConvTranspose1d])
@pytest.mark.parametrize("is_old", [False, True])
def test_normed_weights_are_joined(kind: type[nn.Module], is_old: bool) -> None:
    plain = kind(3, 5, 4)
    weight = plain.get_parameter("weight").detach()
    if is_old:  # what `nn.utils.weight_norm` made, which is gone from new versions
        length = torch.norm_except_dim(weight, 2, 0)
        state = {"conv.weight_g": length, "conv.weight_v": 3 * weight, "conv.bias": weight[0, 0]}
    else:
        normed = nn.utils.parametrizations.weight_norm(plain)
        state = {f"conv.{name}": each for name, each in normed.state_dict().items()}
    assert len(state) == 3
    joined = joined_weights(state)
    assert joined.keys() == {"conv.weight", "conv.bias"}
    torch.testing.assert_close(joined["conv.weight"], weight)


def part_of(folder: Path, **stored: object) -> TorchPart:
    torch.save(
        {"step": 5, "net.b": torch.zeros(3), "old.x": torch.zeros(1), **stored}, folder / "a.pt"
    )
    layout = {"a": (2, 3), "b": (3,)}
    return TorchPart(file=folder / "a.pt", layout=layout, prefix="net.", unused=r"old\..*")


def test_a_part_has_the_tensors_of_its_layout_and_all_are_used(tmp_path: Path) -> None:
    matrix, like = torch.arange(6.0).view(2, 3), torch.empty(0, dtype=torch.bfloat16)
    part = part_of(tmp_path, a=matrix)
    with part.open(like=like) as weights:
        assert {*weights} == {"a", "b"}
        assert torch.equal(weights["a"], matrix.bfloat16())
        assert not weights["b"].any()
    with (
        pytest.raises(ModelLoadError, match=r"a\.pt: never read: b"),
        part.open(like=like) as weights,
    ):
        weights["a"]


def test_a_part_with_other_tensors_is_refused(tmp_path: Path) -> None:
    for stored, told in (({}, "missing: a"), ({"a": torch.zeros(3, 2)}, "of another shape: a is")):
        with (
            pytest.raises(ModelLoadError, match=rf"a\.pt: tensors {told}"),
            part_of(tmp_path, **stored).open(like=torch.empty(0)),
        ):
            pass


def test_tensors_of_a_part_are_drawn_without_its_file(tmp_path: Path) -> None:
    part = part_of(tmp_path)
    part.file.unlink()
    with part.open(like=torch.empty(0), is_dummy=True) as weights:
        assert weights["a"].shape == (2, 3)
        assert weights["b"].any()
