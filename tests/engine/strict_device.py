"""A device that holds plans to their protocol: it remembers what each block and each row holds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
from hypothesis import strategies as st

from antiphon.contracts.engine_limits import PlaybackPolicy
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Sampling
from antiphon.engine.plan import (
    FRAME_STORE_FRAMES,
    CacheShape,
    CodecChunk,
    CodecShape,
    Prefill,
    StepOutput,
    StepPlan,
)
from antiphon.engine.runner import ROW_BUCKETS, Done, PendingStep
from antiphon.engine.scheduler import REPLAY_FRAMES

SAMPLES_PER_FRAME = 2
MAX_REPLAYED = REPLAY_FRAMES
CODEC = CodecShape(SAMPLES_PER_FRAME, 25, (1, 2, 4, 8, 16))
POLICIES = st.builds(
    PlaybackPolicy,
    first_frames=st.integers(1, 40),
    largest_frames=st.none() | st.integers(1, 40),
    spacing=st.integers(2, 20),
)


@dataclass(frozen=True, slots=True)
class Words:
    """A prompt's data: whose it is, what its positions hold, and after which frame it stops."""

    name: str
    positions: tuple[int, ...]
    num_frames: int
    fails_at: int | None = None


def frame_value(name: str, number: int) -> int:
    """Return the frame that a request makes, whatever has happened to it before."""
    return crc32(f"{name} {number}".encode()) % 1_000_003


@dataclass(slots=True)
class _Row:
    prompt: Prompt
    num_frames: int
    num_to_replay: int
    num_decoded: int = 0
    has_begun: bool = False
    table: list[int] = field(default_factory=list)
    pieces: list[Any] = field(default_factory=list)

    @property
    def words(self) -> Words:
        words = self.prompt.data
        assert isinstance(words, Words)
        return words


class StrictDevice:
    """A `Runner` that asserts that every plan can be carried out and gives what it must."""

    row_buckets = ROW_BUCKETS

    def __init__(
        self, num_slots: int, cache: CacheShape | None = None, codec: CodecShape | None = None
    ) -> None:
        self.num_slots = num_slots
        self.cache = cache
        self.codec = codec
        self.rows: dict[int, _Row] = {}
        self.memory: dict[tuple[int, int], Any] = {}
        self.store: dict[tuple[int, int], int] = {}
        self.pieces: dict[str, list[Any]] = {}
        self.num_shared_positions = 0
        self.num_copies = 0
        self.num_resumed = 0
        self.num_replayed = 0

    def launch(self, plan: StepPlan) -> PendingStep:
        for slot in plan.releases:
            del self.rows[slot]
        self._start(plan)
        for append in plan.appends:
            self.rows[append.slot].pieces.append(append.piece.data)
        for slot, blocks in plan.blocks.items():
            assert set(blocks).isdisjoint(self.rows[slot].table)
            self.rows[slot].table += blocks
        self._copy(plan)
        self._prefill(plan)
        assert len(set(plan.decode_slots)) == len(plan.decode_slots)
        outcomes = {slot: self._frame(slot) for slot in plan.decode_slots}
        self._replay(plan)
        slots_of_decodes = [each.slot for each in plan.codec_chunks]
        assert len(set(slots_of_decodes)) == len(slots_of_decodes)
        chunks = {each.slot: self._decode(each) for each in plan.codec_chunks}
        output = StepOutput(
            {slot: frame for slot, frame in outcomes.items() if isinstance(frame, int)},
            frozenset(slot for slot, frame in outcomes.items() if frame == "stop"),
            chunks=chunks,
        )
        return Done(output)

    def close(self) -> None:
        """Nothing to free."""

    def _start(self, plan: StepPlan) -> None:
        for start in plan.starts:
            assert start.slot not in self.rows, "started in a slot that was not released"
            name = start.prompt.data.name
            expected = [frame_value(name, number) for number in range(len(start.frames))]
            assert list(start.frames) == expected, "it does not come back with what it had made"
            assert start.num_frames_decoded <= len(start.frames)
            self.num_resumed += bool(start.frames)
            row = _Row(start.prompt, len(start.frames), start.num_frames_decoded)
            self.rows[start.slot] = row
            for number, frame in enumerate(start.frames):
                self.store[start.slot, number % FRAME_STORE_FRAMES] = frame

    def _copy(self, plan: StepPlan) -> None:
        """Copy blocks as they were before this step, whoever else it gives them to."""
        if not plan.copies:
            return
        assert self.cache is not None
        assert self.cache.copies_blocks, "it copies no blocks"
        targets = [each.target for each in plan.copies]
        assert len(set(targets)) == len(targets), "a block is written by two copies"
        given = {block for blocks in plan.blocks.values() for block in blocks}
        assert given.issuperset(targets), "a copy into a block that is given to nobody"
        self.num_copies += len(targets)
        before = dict(self.memory)
        for each in plan.copies:
            for place in range(self.cache.block_positions):
                self.memory[each.target, place] = before.get((each.source, place))

    def _prefill(self, plan: StepPlan) -> None:
        """Compute what does not depend on what this very step computes for others."""
        before = dict(self.memory)
        num_replayed = 0
        for each in plan.prefills:
            row = self.rows[each.slot]
            self._check_borders(each, row.prompt)
            num_replayed += max(0, each.end - max(each.start, row.prompt.num_positions))
            assert each.start < each.end <= row.prompt.num_positions + row.num_frames
            if not row.has_begun:
                self.num_shared_positions += each.start
            row.has_begun = True
            for position in range(each.start):
                assert self._read(before, row, position) == _content(row, position)
            for position in range(each.start, each.end):
                self._write(row, position)
        if self.cache is not None and self.cache.replayed_positions is not None:
            assert num_replayed <= self.cache.replayed_positions

    def _check_borders(self, prefill: Prefill, prompt: Prompt) -> None:
        assert self.cache is not None
        for border in (prefill.start, prefill.end):
            is_between_blocks = border % self.cache.block_positions == 0
            is_end = border >= prompt.num_positions
            is_common = border == prefill.start == prompt.num_common_positions
            assert is_between_blocks or is_end or is_common, "a prompt is parted within a block"

    def _replay(self, plan: StepPlan) -> None:
        if plan.codec_replays:
            assert self.codec is not None, "it decodes nothing"
            num_frames = [each.end - each.start for each in plan.codec_replays]
            assert sum(num_frames) <= MAX_REPLAYED or len(num_frames) == 1
            self.num_replayed += sum(num_frames)
        for each in plan.codec_replays:
            row = self.rows[each.slot]
            assert each.start == row.num_decoded, "a replay is not where the last one ended"
            assert each.start < each.end <= row.num_to_replay
            row.num_decoded = each.end

    def _frame(self, slot: int) -> int | str:
        row = self.rows[slot]
        if self.cache is not None:
            position = row.prompt.num_positions + row.num_frames
            assert position < self.cache.max_positions
            for each in range(position):
                assert self._read(self.memory, row, each) == _content(row, each)
            self._write(row, position)
        number = row.num_frames
        row.num_frames += 1
        if number == row.words.fails_at:
            return "error"
        if number >= row.words.num_frames:
            return "stop"
        frame = frame_value(row.words.name, number)
        self.store[slot, number % FRAME_STORE_FRAMES] = frame
        self.pieces[row.words.name] = list(row.pieces)
        return frame

    def _decode(self, decode: CodecChunk) -> np.ndarray[Any, np.dtype[np.float32]]:
        assert self.codec is not None, "it decodes nothing"
        row = self.rows[decode.slot]
        assert decode.num_frames in self.codec.chunk_sizes
        assert decode.start == row.num_decoded, "a chunk is not where the last one ended"
        assert row.num_decoded >= row.num_to_replay, "a chunk before all frames are replayed"
        row.num_decoded += decode.num_frames
        frames = [
            self.store.get((decode.slot, number % FRAME_STORE_FRAMES), -1)
            for number in range(decode.start, row.num_decoded)
        ]
        return np.repeat(np.array(frames, np.float32), SAMPLES_PER_FRAME)

    def _read(self, memory: dict[tuple[int, int], Any], row: _Row, position: int) -> Any:
        if self.cache is None:
            return _content(row, position)
        index, place = divmod(position, self.cache.block_positions)
        return memory.get((row.table[index], place))

    def _write(self, row: _Row, position: int) -> None:
        assert self.cache is not None
        index, place = divmod(position, self.cache.block_positions)
        self.memory[row.table[index], place] = _content(row, position)


def _content(row: _Row, position: int) -> Any:
    """Return what keys and values at a position say: all that was read up to it."""
    words = row.words
    if position < len(words.positions):
        return words.positions[: position + 1]
    return (words.name, position)


def prompt(
    words: Words,
    *,
    max_frames: int | None = None,
    allowed: int | None = None,
    keyed: bool = True,
    num_common: int = 0,
) -> Prompt:
    return Prompt(
        data=words,
        num_tokens=4,
        seed=0,
        sampling=Sampling(max_frames=max_frames),
        num_frames_allowed=allowed,
        num_positions=len(words.positions),
        position_keys=words.positions if keyed else (),
        num_common_positions=num_common,
    )


def heard_values(chunks: Sequence[Any]) -> list[int]:
    """Return the frames that audio was made of."""
    samples = np.concatenate([each.samples for each in chunks]) if chunks else np.zeros(0)
    assert len(samples) % SAMPLES_PER_FRAME == 0
    return [int(each) for each in samples[::SAMPLES_PER_FRAME]]
