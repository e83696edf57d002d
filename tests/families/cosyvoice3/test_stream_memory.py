"""As many requests run at once as there is memory for."""

from pathlib import Path

import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.families.cosyvoice3 import flow_context
from antiphon.families.cosyvoice3.checkpoint import weight_bytes
from antiphon.families.cosyvoice3.config import load_config
from antiphon.families.cosyvoice3.flow_context import slots_that_fit, stream_bytes
from antiphon.families.cosyvoice3.sizes import make_checkpoint as without_weights
from tests.families.cosyvoice3.random_checkpoint import make_checkpoint

CPU = torch.device("cpu")


def test_a_stream_takes_what_its_cache_does(base: Path, tmp_path: Path) -> None:
    config = load_config(base).flow
    assert stream_bytes(config, CPU) == 752 * 2 * 2 * 10 * 2 * 32 * 4
    without_weights(tmp_path, size="0.5b")
    full = load_config(tmp_path).flow
    assert stream_bytes(full, torch.device("cuda")) == pytest.approx(1.35e9, rel=0.01)


def test_slots_are_fewer_where_memory_is_short(
    base: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = load_config(base).flow
    size, context = stream_bytes(config, CPU), LoadContext(base, max_slots=5)
    networks = sum(file.stat().st_size for file in base.glob("*.pt"))
    for num_streams, wanted in ((100, 5), (3, 3), (0, 1)):
        room = int((num_streams * size + 1.5 * networks) / 0.8) + 9
        monkeypatch.setattr(flow_context, "_memory_bytes", lambda device, room=room: room)
        caplog.clear()
        assert slots_that_fit(context, config, CPU) == wanted
        assert bool(caplog.records) == (wanted < 5)


def test_this_machine_has_room_for_a_tiny_one(tmp_path: Path) -> None:
    make_checkpoint(tmp_path)
    assert slots_that_fit(LoadContext(tmp_path, max_slots=2), load_config(tmp_path).flow, CPU) == 2


def test_networks_without_files_take_as_much(base: Path, tmp_path: Path) -> None:
    without_weights(tmp_path)
    stored = sum(file.stat().st_size for file in base.glob("*.pt"))
    assert weight_bytes(tmp_path) == weight_bytes(base) == pytest.approx(stored, rel=0.05)
