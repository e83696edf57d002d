"""Segments of a job, kept on disk as they are spoken, so that a restart goes on where it was.

Each begins with a hash of the rest: a segment damaged on disk is spoken again.
"""

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from antiphon.audio.wav import num_channels
from antiphon.concurrency import Workers
from antiphon.contracts.types import AudioChunk, Ended, Usage
from antiphon.pipeline.speech.text_plan import Segment
from antiphon.storage.blobs import BlobStore
from antiphon.storage.faults import storage_faults

logger = logging.getLogger(__name__)

_NUM_HASH_BYTES = hashlib.sha256().digest_size
_NUM_LENGTH_BYTES = 4
_NUM_HEAD_BYTES = 256 - _NUM_HASH_BYTES - _NUM_LENGTH_BYTES  # so that the samples are aligned

Spend = Callable[[int], None]
"""Callback with the number of bytes about to be written; raises if they may not be."""


@dataclass(frozen=True, slots=True)
class SegmentDone:
    """A segment that is complete.

    Attributes:
        fraction: 0 to 1, of the text that is spoken.
        was_damaged: whether what was kept of it had to be made again.
    """

    fraction: float
    audio_s: float
    was_damaged: bool = False


class SegmentCheckpoints:
    """Complete segments on disk; what is there is read instead of being spoken again."""

    def __init__(
        self, folder: Path, workers: Workers, on_done: Callable[[SegmentDone], None], spend: Spend
    ) -> None:
        """Keep segments in a folder of their own; ``on_done`` is called for each."""
        self._spend = spend
        self._damaged: set[int] = set()
        self._blobs = BlobStore(folder)
        self._workers = workers
        self._on_done = on_done
        self._num_characters_done = 0
        self._num_characters = 1

    def plan(self, num_characters: int) -> None:
        """Note how many characters all segments have together."""
        self._num_characters = num_characters

    async def load(self, segment: Segment) -> tuple[AudioChunk, Ended] | None:
        """Return a segment that is on disk, undamaged; raises StorageError."""
        kept = await self._workers.run(self._load, segment)
        if kept is not None:
            await self._tell(segment, kept[0].duration_s)
        return kept

    async def save(self, segment: Segment, chunks: list[AudioChunk], ended: Ended) -> None:
        """Keep a segment that is complete; raises StorageError."""
        await self._workers.run(self._save, segment, chunks, ended)
        await self._tell(segment, sum(chunk.duration_s for chunk in chunks))

    async def _tell(self, segment: Segment, audio_s: float) -> None:
        self._num_characters_done += len(await segment.text.whole())
        fraction = self._num_characters_done / self._num_characters
        self._on_done(SegmentDone(fraction, audio_s, segment.index in self._damaged))

    def _load(self, segment: Segment) -> tuple[AudioChunk, Ended] | None:
        with storage_faults():
            try:
                content = self._blobs.get(_name(segment))
            except FileNotFoundError:
                return None
        digest, rest = content[:_NUM_HASH_BYTES], memoryview(content)[_NUM_HASH_BYTES:]
        if hashlib.sha256(rest).digest() != digest:
            logger.warning("segment %d of a job is damaged and is made again", segment.index)
            self._damaged.add(segment.index)
            return None
        self._spend(len(content))
        length = int.from_bytes(rest[:_NUM_LENGTH_BYTES], "little")
        start = _NUM_LENGTH_BYTES + length
        facts = json.loads(bytes(rest[_NUM_LENGTH_BYTES:start]))
        samples = np.frombuffer(rest, "<f4", offset=start).astype(np.float32)
        if (channels := facts.get("channels", 1)) > 1:
            samples = samples.reshape(-1, channels)
        usage = Usage(facts["input_tokens"], facts["output_tokens"])
        chunk = AudioChunk(samples, facts["sample_rate_hz"], usage.output_tokens)
        return chunk, Ended(facts["reason"], usage, tuple(facts.get("unspoken", ())))

    def _save(self, segment: Segment, chunks: list[AudioChunk], ended: Ended) -> None:
        facts = {
            "sample_rate_hz": chunks[0].sample_rate_hz,
            "channels": num_channels(chunks[0].samples),
            "reason": ended.reason,
            "input_tokens": ended.usage.input_tokens,
            "output_tokens": ended.usage.output_tokens,
            "unspoken": ended.unspoken,
        }
        head = json.dumps(facts).encode()
        size = max(_NUM_HEAD_BYTES, len(head))
        head = head.ljust(size + -size % 4)
        samples = np.concatenate([chunk.samples for chunk in chunks]).astype("<f4")
        length = len(head).to_bytes(_NUM_LENGTH_BYTES, "little")
        rest = b"".join([length, head, samples.tobytes()])
        content = hashlib.sha256(rest).digest() + rest
        self._spend(len(content))
        with storage_faults():
            self._blobs.put(_name(segment), content)


def _name(segment: Segment) -> str:
    return f"{segment.index}.segment"
