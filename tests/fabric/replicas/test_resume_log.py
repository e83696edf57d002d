"""What was delivered: a stream that is cut anywhere, and gone on with, is the whole, once."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from antiphon.contracts.picture_types import Image, Progress
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Ended, FrameReady, WordTime
from antiphon.fabric.replicas.resume_log import ResumeLog
from antiphon.stages.base import StageItem, StageRequest

RATE_HZ = 100
FRAME_SAMPLES = 4
PROMPT = Prompt(data=None, num_tokens=1, seed=0)


def request(*, returns_frames: bool = False) -> StageRequest:
    return StageRequest("r", PROMPT, returns_frames=returns_frames)


def chunks(sizes: Sequence[int], *, has_frames: bool, first: int = 0) -> list[AudioChunk]:
    made = []
    for size in sizes:
        numbers = range(first, first + size)
        samples = np.repeat(np.array(numbers, np.float32), FRAME_SAMPLES)
        words = tuple(WordTime(str(number), number, number + 1, number) for number in numbers)
        frames = tuple(numbers) if has_frames else ()
        made.append(AudioChunk(samples, RATE_HZ, size, words=words, frames=frames))
        first += size
    return made


SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=8)


@given(SIZES, st.lists(st.integers(0, 7), max_size=5), st.booleans(), st.booleans())
def test_audio_that_is_cut_anywhere_is_the_whole(
    sizes: list[int], cuts: list[int], has_frames: bool, returns_frames: bool
) -> None:
    log = ResumeLog(request(returns_frames=returns_frames), lambda: 0.0)
    heard: list[AudioChunk] = []
    sent = log.request
    ids = {sent.id}

    def deliver(items: Sequence[StageItem]) -> None:
        for item in items:
            if isinstance(new := log.take(item), AudioChunk):
                heard.append(new)

    num_frames = sum(sizes)
    for cut in cuts:
        first = len(sent.resume_frames)
        deliver(chunks(sizes, has_frames=has_frames)[:cut] if not first else [])
        sent = log.resumed()
        assert sent.id not in ids, "text for the former is perhaps still on its way"
        ids.add(sent.id)
        assert sent.is_later
    first = len(sent.resume_frames)
    rest = [1] * (num_frames - first) if first else sizes
    deliver(chunks(rest, has_frames=has_frames, first=first))
    samples = np.concatenate([each.samples for each in heard])
    np.testing.assert_array_equal(samples, np.repeat(np.arange(num_frames), FRAME_SAMPLES))
    assert [word.word for each in heard for word in each.words] == [*map(str, range(num_frames))]
    assert sum(each.num_frames for each in heard) == num_frames
    frames = [frame for each in heard for frame in each.frames]
    assert frames == ([*range(num_frames)] if has_frames and returns_frames else [])


@given(st.integers(0, 9))
def test_a_replica_goes_on_after_the_frames_of_another(num_frames: int) -> None:
    log = ResumeLog(request(), lambda: 0.0)
    assert not log.has_begun
    for number in range(num_frames):
        assert log.take(FrameReady(number)) == FrameReady(number)
    assert log.resumed().resume_frames == tuple(range(num_frames))
    assert log.take(FrameReady(num_frames)) == FrameReady(num_frames)


@given(st.integers(0, 9))
def test_items_that_are_made_again_are_delivered_once(num_images: int) -> None:
    log = ResumeLog(request(), lambda: 0.0)
    images = [Image(np.full((1, 1, 1), number, np.uint8)) for number in range(9)]
    for image in images[:num_images]:
        assert log.take(image) is image
    log.resumed()
    again = [log.take(image) for image in images]
    assert [each for each in again if each is not None] == images[num_images:]
    assert log.take(Ended("stop")) == Ended("stop")


def test_the_next_replica_is_told_what_the_listener_has_left() -> None:
    now = [10.0]
    log = ResumeLog(request(), lambda: now[0])
    assert log.buffered_s is None
    for chunk in chunks([25, 25], has_frames=True):  # a second each
        log.take(chunk)
        now[0] += 0.25
    assert log.buffered_s == 1.5
    now[0] = 20.0
    assert log.resumed().buffered_s == 0.0


def image(number: int | None) -> Image:
    return Image(np.zeros((2, 2, 3), np.uint8), preview_index=number)


@given(st.lists(st.tuples(st.integers(0, 8), st.sets(st.integers(1, 4))), max_size=4))
def test_a_picture_that_is_begun_again_comes_once_and_progress_grows(
    attempts: Sequence[tuple[int, set[int]]],
) -> None:
    log = ResumeLog(request(), lambda: 0.0)
    heard: list[StageItem] = []
    whole = (8, {1, 2, 3, 4})
    for num_items, steps in (*attempts, whole):  # progress may be left out, and is each time else
        made: list[StageItem] = [
            *(Progress(1, 4), Progress(2, 4), image(0)),
            *(Progress(3, 4), image(1), Progress(4, 4), image(None), Ended("stop")),
        ]
        kept = [each for each in made if not isinstance(each, Progress) or each.step in steps]
        cut = kept if steps is whole[1] else [each for each in kept[:num_items] if each != made[-1]]
        heard += [new for each in cut if (new := log.take(each)) is not None]
        log.resumed()
    images = [each.preview_index for each in heard if isinstance(each, Image)]
    assert images == [0, 1, None]
    progress = [each.step for each in heard if isinstance(each, Progress)]
    assert progress == sorted(set(progress))
    assert progress[-1] == 4


def test_a_listener_has_heard_nothing_before_the_first_sound() -> None:
    """Of a decoder that looks ahead, frames come before what is heard of them."""
    log = ResumeLog(request(), lambda: 5.0)
    silence = np.zeros(0, np.float32)
    for number in range(3):
        log.take(AudioChunk(silence, RATE_HZ, 1, frames=(number,)))
    assert log.buffered_s is None
    assert log.resumed().resume_frames == (0, 1, 2)
    log.take(AudioChunk(np.zeros(50, np.float32), RATE_HZ, 1, frames=(3,)))
    assert log.buffered_s == 0.5
