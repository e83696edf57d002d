"""A segment that is read from the disk is all that was kept of it."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from antiphon.concurrency import Workers
from antiphon.contracts.types import AudioChunk, Ended, Usage
from antiphon.pipeline.speech.segment_checkpoint import SegmentCheckpoints, SegmentDone
from antiphon.pipeline.speech.text_plan import Segment


@pytest.mark.parametrize("num_words", [0, 2, 101])
async def test_what_was_not_spoken_is_still_told_after_a_restart(
    num_words: int, tmp_path: Path
) -> None:
    ended = Ended("length", Usage(3, 5), tuple(f"你好{number}" for number in range(num_words)))
    chunks = [AudioChunk(np.linspace(-1, 1, 7, dtype=np.float32), 24_000, 5)]
    segment = Segment(0)
    segment.text.push("Hello.")
    segment.text.close()
    done: list[SegmentDone] = []
    with closing(Workers("test", 1)) as workers:
        await SegmentCheckpoints(tmp_path, workers, done.append, print).save(segment, chunks, ended)
        kept = await SegmentCheckpoints(tmp_path, workers, done.append, print).load(segment)
    assert kept is not None
    assert kept[1] == ended
    np.testing.assert_array_equal(kept[0].samples, chunks[0].samples)
    assert [each.was_damaged for each in done] == [False, False]
