"""Data crosses a connection as it was; what could do something else is refused on both sides."""

import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon import errors
from antiphon.concurrency import Workers
from antiphon.contracts.family import Family, LoadContext
from antiphon.engine.async_engine import AsyncEngine
from antiphon.engine.faults import fault_of
from antiphon.errors import AntiphonError
from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.base import Replica
from antiphon.fabric.wire.safe_pickle import ForeignDataError, dumps, loads
from antiphon.families.registry import FAMILIES, families
from antiphon.telemetry.stage_status import EngineStats, StageStatus
from tests.fabric.test_pickling import CROSSING, ERRORS, assert_equal, made

ARRAYS = [
    np.arange(6).reshape(2, 3),
    np.arange(6).reshape(2, 3).T,
    np.asfortranarray(np.ones((3, 4), np.float32)),
    np.arange(20, dtype=np.int16)[::3],
    np.zeros((0, 4), np.float16),
    np.array(3.5),
    np.array([True, False]),
    np.array(["a", "bc"]),
    np.arange(5, dtype=">i4"),
    np.linspace(0, 1, 5000, dtype=np.float32),
    np.arange(3, dtype=np.complex64),
]
PLAIN = [
    *(None, True, 3, 2**70, 2.5, 1j, "text", b"bytes", bytearray(b"more"), range(3), slice(1, 2)),
    *([1, [2]], (1, (2,)), {"a": {1: 2}}, {1, 2}, frozenset({3}), Path("folder/file")),
    *(np.float32(1.5), np.int64(7), np.bool_(True), {"nested": [np.arange(3), (np.int8(1),)]}),
]
OURS = [
    *CROSSING,
    Placement(device="cpu", labels=(("a", "b"),)),
    Replica("1", "unix:/tmp/a", "stage"),
    StageStatus(3, 4, stats=EngineStats()),
]


class Reduces:
    """Pickled as a call of whatever is asked for."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.reduced = function, arguments

    def __reduce__(self) -> Any:
        return self.reduced


def crossed(value: Any) -> Any:
    buffers: list[pickle.PickleBuffer] = []
    data = dumps(value, buffers.append)
    return loads(data, [bytearray(each.raw()) for each in buffers])


@pytest.mark.parametrize("value", [*ARRAYS, *PLAIN], ids=repr)
def test_arrays_and_plain_data_cross(value: Any) -> None:
    assert_equal(crossed(value), value)


@pytest.mark.parametrize("value", OURS, ids=lambda value: type(value).__name__)
def test_data_of_ours_crosses(value: Any) -> None:
    assert_equal(crossed(value), value)


@pytest.mark.parametrize("family", families(), ids=FAMILIES)
def test_declarations_cross(family: Family) -> None:
    for task in family.tasks.values():
        assert crossed(task.pipeline) == task.pipeline


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_cross_with_all_that_they_say(kind: type[AntiphonError]) -> None:
    error = made(kind)
    other = crossed(error)
    assert type(other) is kind
    assert (str(other), vars(other)) == (str(error), vars(error))


def test_large_arrays_are_not_copied_and_may_be_written_to() -> None:
    samples = np.zeros(10_000, np.float32)
    buffers: list[pickle.PickleBuffer] = []
    assert len(dumps({"samples": samples}, buffers.append)) < 1000
    (view,) = (each.raw() for each in buffers)
    samples[0] = 1.0
    assert np.frombuffer(view, np.float32)[0] == 1.0
    for array in (samples, np.zeros(3)):
        crossed(array)[:] = 2.0


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (os.system, ("true",)),
        (subprocess.Popen, (["true"],)),
        (eval, ("1",)),
        (exec, ("1",)),
        (getattr, (Path(), "home")),
        (__import__, ("os",)),
        (open, ("/dev/null",)),
        (np.load, ("/dev/null",)),
        (np.ndarray, ((1,), "O", b"12345678")),
        (np.dtype, ("O",)),
        (fault_of, (len,)),
        (errors.shortened, ("text",)),
        (AsyncEngine, (None,)),
        (Workers, ("name",)),
        (Path.unlink, (Path("/nowhere"),)),
    ],
    ids=lambda each: getattr(each, "__qualname__", ""),
)
def test_what_is_no_data_is_refused_by_both_sides(
    function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    thing = Reduces(function, *arguments)
    with pytest.raises(ForeignDataError):
        loads(pickle.dumps(thing))
    with pytest.raises(ForeignDataError):
        dumps(thing)
    with pytest.raises(ForeignDataError):
        dumps(function)


@pytest.mark.parametrize(
    "data",
    [
        b"cantiphon.concurrency\nos.system\n(S'true'\ntR.",
        b"\x80\x04\x8c\x14antiphon.concurrency\x8c\tos.system\x93\x8c\x04true\x85R.",
        b"\x80\x04\x8c\x14antiphon.concurrency\x8c\x02os\x93.",
        b"\x80\x04\x8c\x11antiphon.__main__\x8c\x03app\x93.",
        b"\x80\x04\x8c\x0dantiphon.none\x8c\x03app\x93.",
        b"\x80\x05\x97.",
        b"\x80\x05.",
        b"",
        b"\x80\x05" + b"]" * 100,
        b"\x80\x05\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    ],
)
def test_a_damaged_or_crafted_pickle_is_refused(data: bytes) -> None:
    with pytest.raises(ForeignDataError):
        loads(data)


def test_arrays_of_objects_are_refused() -> None:
    for array in (np.array([object()]), np.zeros(2, [("a", np.int32)])):
        with pytest.raises(ForeignDataError):
            dumps(array)
    crafted = dumps(np.zeros(2)).replace(b"<f8", b"|O8")
    with pytest.raises(ForeignDataError, match="must not cross"):
        loads(crafted)


def test_what_is_not_of_the_package_is_refused_by_its_sender() -> None:
    for thing in (Reduces(len), lambda: None, LoadContext(progress=print), iter(()), os):
        with pytest.raises(ForeignDataError):
            dumps({"a": [thing]})
