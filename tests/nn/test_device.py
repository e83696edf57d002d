"""Names of devices: what is not there or too old is refused with what would do."""

import pytest
import torch

from antiphon.errors import ModelLoadError
from antiphon.nn.device import resolve_device, resolve_dtype


def pretend(monkeypatch: pytest.MonkeyPatch, name: str, capability: tuple[int, int]) -> list[int]:
    """Pretend that there is such a card; the list gets what becomes the current device."""
    made_current: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", made_current.append)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    return made_current


@pytest.mark.parametrize("asked", ["auto", "cuda", "cuda:0"])
def test_cards_that_are_too_old_are_refused(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "Tesla V100", (7, 0))
    with pytest.raises(ModelLoadError, match=r"Tesla V100 .*7\.0; 7\.5"):
        resolve_device(asked)
    assert resolve_device("cpu").type == "cpu"


def test_a_card_without_bfloat16_computes_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "Tesla T4", (7, 5))
    device = resolve_device("auto")
    assert resolve_dtype("auto", device) == resolve_dtype("float32", device) == torch.float32
    with pytest.raises(ModelLoadError, match=r"Invalid 'dtype': bfloat16\. Must be auto"):
        resolve_dtype("bfloat16", device)
    assert resolve_dtype("bfloat16", torch.device("cpu")) == torch.bfloat16
    pretend(monkeypatch, "a card", (8, 6))
    assert resolve_dtype("auto", device) == resolve_dtype("bfloat16", device) == torch.bfloat16


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (12, 0)])
def test_later_cards_are_taken(
    capability: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made_current = pretend(monkeypatch, "a card", capability)
    assert resolve_device("auto") == torch.device("cuda:0")
    assert made_current == [0]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("cuda:1", "PyTorch sees 1"),
        ("toaster", "no device"),
        *((kind, f"Invalid device: '{kind}'. Must be auto, cpu") for kind in ("mps", "xpu:0")),
    ],
)
def test_devices_that_are_not_there(asked: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "a card", (9, 0))
    with pytest.raises(ModelLoadError, match=told):
        resolve_device(asked)
