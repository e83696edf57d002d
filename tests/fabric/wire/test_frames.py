"""Messages come out of frames as they went in, however the bytes are cut."""

import random
import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.contracts.types import AudioChunk, Ended, WordTime
from antiphon.fabric.wire.frames import FrameReader, FrameWriter, WireLimits
from antiphon.fabric.wire.messages import Message, MessageKind, decode, encode
from antiphon.fabric.wire.safe_pickle import ForeignDataError
from tests.fabric.test_pickling import assert_equal

LIMITS = WireLimits(max_frame_bytes=1000, max_message_bytes=100_000)
RNG = np.random.default_rng(1)


def chunk(num_samples: int, **members: object) -> AudioChunk:
    samples = RNG.standard_normal(num_samples, np.float32)
    return AudioChunk(samples, 24_000, 2, **members)  # type: ignore[arg-type]


MESSAGES: list[Message] = [
    (MessageKind.OPEN, 1, ("open", ("stage", {"a": np.arange(1000)}), 8)),
    (MessageKind.ITEM, 2, chunk(50)),
    (MessageKind.ITEM, 2, chunk(0)),
    (MessageKind.ITEM, 3, chunk(3000)),
    (MessageKind.ITEM, 3, chunk(10, words=(WordTime("a", 0, 1, 0),), unspoken=("?",))),
    (MessageKind.ITEM, 3, chunk(10, frames=(np.arange(16), np.arange(16)))),
    (MessageKind.ITEM, 4, AudioChunk(np.zeros((5, 2), np.float32), 48_000)),
    (MessageKind.ITEM, 4, AudioChunk(np.zeros((5, 2), np.float32)[::2], 48_000)),
    (MessageKind.ITEM, 4, AudioChunk(np.zeros(5, np.float64), 48_000)),
    (MessageKind.ITEM, 5, Ended("stop")),
    (MessageKind.CREDIT, 6, 4),
    (MessageKind.END, 7, None),
    (MessageKind.NOTICE, 0, ("append", ("stage", np.zeros(9000)))),
    (MessageKind.ERROR, 2**63, ValueError("wrong")),
]


def written(messages: list[Message], limits: WireLimits = LIMITS) -> list[bytes]:
    writer = FrameWriter(limits)
    for kind, id, value in messages:
        writer.add(*encode(kind, id, value), order=id)
    writes = [b"".join(writer.take(with_part=True))]
    while writer.has_large:
        writes.append(b"".join(writer.take(with_part=True)))
    return writes


def read(reader: FrameReader, data: bytes, sizes: list[int]) -> list[Message]:
    """Return the messages of bytes that come in pieces of these sizes, again and again."""
    found: list[Message] = []
    turn = 0
    while data:
        room = reader.room()
        num_bytes = min(len(room), sizes[turn % len(sizes)], len(data))
        room[:num_bytes] = data[:num_bytes]
        reader.took(num_bytes)
        found += reader.messages()
        data = data[num_bytes:]
        turn += 1
    return found


def assert_same(found: list[Message], sent: list[Message]) -> None:
    assert len(found) == len(sent)
    for id in {message[1] for message in sent}:
        ours = [each for each in sent if each[1] == id]
        theirs = [each for each in found if each[1] == id]
        for one, other in zip(theirs, ours, strict=True):
            if isinstance(other[2], Exception):
                assert repr(one) == repr(other)
            else:
                assert_equal(one, other)


@given(
    st.lists(st.sampled_from(MESSAGES), max_size=12),
    st.lists(st.integers(1, 3000), min_size=1, max_size=5),
)
@settings(deadline=None)
def test_messages_come_as_they_went_however_the_bytes_are_cut(
    messages: list[Message], sizes: list[int]
) -> None:
    data = b"".join(written(messages))
    assert_same(read(FrameReader(LIMITS), data, sizes), messages)


def test_what_is_small_leaves_in_the_first_write_and_passes_what_is_large() -> None:
    large = MessageKind.OPEN, 1, ("open", (np.zeros(5000),), 8)
    small = [(MessageKind.CREDIT, id, 4) for id in range(2, 100)]
    behind = MessageKind.CLOSE, 1, None
    first, *others = written([large, *small, behind])
    reader = FrameReader(LIMITS)
    assert read(reader, first, [100]) == small
    assert len(others) == 40_000 // 1000 + 1
    opened, closed = read(reader, b"".join(others), [100])
    assert_equal(opened, large)
    assert closed == behind


@given(st.data())
@settings(deadline=None, max_examples=300)
def test_damage_is_refused_or_makes_other_messages(data: st.DataObject) -> None:
    """Whatever comes, the reader raises that one error, or goes on: it never breaks otherwise."""
    whole = bytearray(b"".join(written(MESSAGES[:6])))
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    begin = data.draw(st.integers(0, 64))
    with suppress(ForeignDataError):
        read(FrameReader(LIMITS), bytes(whole[begin:]), [700])


def test_noise_is_refused() -> None:
    noise = random.Random(1)
    for _ in range(200):
        with pytest.raises(ForeignDataError):
            read(FrameReader(LIMITS), noise.randbytes(5000), [1000])


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<II", 1, 1001),
        struct.pack("<II", 2, 100_001),
        struct.pack("<II", 2, 0),
        struct.pack("<II", 3, 10),
        struct.pack("<IIII", 2, 100, 3, 101),
        struct.pack("<IIII", 2, 100, 2, 100),
        struct.pack("<II", 4, 1),
        struct.pack("<II", 5, 0),
        struct.pack("<IIIBBHQ", 1, 16, 17, 9, 1, 0, 1),
        struct.pack("<IIIBBHQ", 1, 16, 15, 9, 1, 0, 1),
        struct.pack("<IIIBBHQ", 1, 16, 16, 0, 1, 0, 1),
        struct.pack("<IIIBBHQ", 1, 16, 16, 9, 9, 0, 1),
        struct.pack("<IIIBBHQ", 1, 16, 16, 9, 3, 0, 1),
        struct.pack("<IIIBBHQ", 1, 16, 16, 9, 0, 9, 1),
    ],
)
def test_frames_that_are_wrong_or_too_large_are_refused(data: bytes) -> None:
    with pytest.raises(ForeignDataError):
        read(FrameReader(LIMITS), data, [1000])


def test_a_truncated_message_is_refused() -> None:
    for kind, id, value in MESSAGES:
        whole = b"".join(encode(kind, id, value)[1])
        for length in {1, len(whole) // 2, len(whole) - 1}:
            with pytest.raises(ForeignDataError):
                decode(memoryview(whole[:length]))
