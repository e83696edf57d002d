"""Free memory returns to the system, though not all of what was allocated after it is free."""

import sys
from pathlib import Path

import pytest

from antiphon.nn.cpu.heap import trim_heap

_SIZE, _NUM_PARTS = 60_000, 2_000


def num_resident_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_free_memory_below_what_is_in_use_is_returned() -> None:
    trim_heap()
    before = num_resident_bytes()
    parts = [bytearray(b"1") * _SIZE for _ in range(_NUM_PARTS)]
    assert num_resident_bytes() - before > _SIZE * _NUM_PARTS * 0.9
    in_use = parts[:: _NUM_PARTS // 20]
    del parts
    trim_heap()
    assert num_resident_bytes() - before < _SIZE * _NUM_PARTS * 0.2
    assert len(in_use) == 20
