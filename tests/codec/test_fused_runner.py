"""Model and codec as one runner: the audio is that of the whole, whatever happens on the way."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.codec.runners import FusedRunner
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Samples, Sampling
from antiphon.engine.plan import CodecChunk, CodecReplay, Start, StepPlan
from antiphon.families.toy.codec import ToneCodec, ToneState
from antiphon.families.toy.prompt import Letters
from antiphon.families.toy.talker import ToyFrame, ToyRunner

CONTEXT = LoadContext(device="cpu", max_slots=3)
PROMPT = Prompt(
    data=Letters(tuple(map(ord, "how now brown cow, said the fox")), 220.0),
    num_tokens=1,
    seed=5,
    sampling=Sampling(temperature=0.7),
)
REFERENCE = np.array([[300.0, 0.2], [310.0, 0.5], [500.0, 0.1]])


class NotingCodec(ToneCodec):
    """Records with how many frames rows are primed, and how many they replay."""

    def __init__(self) -> None:
        super().__init__(CONTEXT)
        self.primed: list[tuple[int, int]] = []
        self.replayed: list[tuple[int, int]] = []

    def prime(self, state: list[ToneState], slot: int, frames: NDArray[np.float64]) -> None:
        self.primed.append((slot, len(frames)))
        super().prime(state, slot, frames)

    def replay(
        self, state: list[ToneState], slot: int, frames: NDArray[np.float64], num_ahead: int = 0
    ) -> None:
        self.replayed.append((slot, len(frames)))
        super().replay(state, slot, frames)


def whole(prompt: Prompt) -> Samples:
    """Return a request's audio, made of all of its frames in one piece."""
    runner, codec = ToyRunner(CONTEXT), ToneCodec(CONTEXT)
    frames: list[ToyFrame] = []
    output = runner.launch(StepPlan(starts=(Start(0, prompt),), decode_slots=(0,))).result()
    while 0 not in output.stopped:
        frames.append(output.frames[0])
        output = runner.launch(StepPlan(decode_slots=(0,))).result()
    state = codec.open(1)
    if prompt.context_frames is not None:
        codec.decode_row(prompt.context_frames, state, 0)
    return codec.decode_row(np.stack(frames), state, 0)


def spoken(
    runner: FusedRunner, prompt: Prompt, sizes: Sequence[int], lost_after: set[int]
) -> Samples:
    """Speak in chunks of ``sizes`` frames, losing the slot to another after some steps."""
    slot, plan = 0, StepPlan(starts=(Start(0, prompt),))
    frames: list[ToyFrame] = []
    chunks: list[Samples] = []
    num_steps = num_decoded = 0
    is_over = False
    for size in cycle(sizes):
        while len(frames) < num_decoded + size and not is_over:
            is_due = len(frames) + 1 == num_decoded + size
            planned = (CodecChunk(slot, num_decoded, size),) if is_due else ()
            output = runner.launch(
                replace(plan, decode_slots=(slot,), codec_chunks=planned)
            ).result()
            plan, num_steps = StepPlan(), num_steps + 1
            is_over = slot in output.stopped
            frames += [output.frames[slot]] if slot in output.frames else []
            chunks += [output.chunks[slot]] if slot in output.chunks else []
            num_decoded += size if planned else 0
            if num_steps in lost_after and not is_over:
                start = Start((slot + 1) % 3, prompt, tuple(frames), num_decoded)
                replays = tuple(
                    CodecReplay(start.slot, first, min(first + 3, num_decoded))
                    for first in range(0, num_decoded, 3)
                )
                plan = StepPlan(releases=(slot,), starts=(start,), codec_replays=replays)
                slot = start.slot
        if is_over:
            break
    if num_decoded < len(frames):  # what is left, in a chunk that is too long
        last = replace(plan, codec_chunks=(CodecChunk(slot, num_decoded, 16),))
        chunks.append(runner.launch(last).result().chunks[slot])
    return np.concatenate(chunks)[: len(frames) * ToneCodec.samples_per_frame]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from((1, 2, 4, 8, 16)), min_size=1, max_size=5),
    st.sets(st.integers(1, 60), max_size=4),
    st.booleans(),
)
def test_any_chunks_and_any_loss_of_the_slot_give_the_audio_of_the_whole(
    sizes: list[int], lost_after: set[int], has_context: bool
) -> None:
    prompt = replace(PROMPT, context_frames=REFERENCE if has_context else None)
    runner = FusedRunner(ToyRunner(CONTEXT), ToneCodec(CONTEXT))
    np.testing.assert_array_equal(spoken(runner, prompt, sizes, lost_after), whole(prompt))


def test_one_row_is_primed_in_a_step_and_those_whose_chunks_are_due_at_once() -> None:
    codec = NotingCodec()
    runner = FusedRunner(ToyRunner(CONTEXT), codec)
    prompt = replace(PROMPT, context_frames=REFERENCE)
    starts = tuple(Start(slot, prompt) for slot in range(3))
    runner.launch(StepPlan(starts=starts, decode_slots=(0, 1, 2)))
    assert codec.primed == [(0, 3)]
    runner.launch(StepPlan(codec_chunks=(CodecChunk(2, 0, 1),)))
    assert codec.primed == [(0, 3), (2, 3)]
    runner.launch(StepPlan(decode_slots=(0,)))
    runner.launch(StepPlan(decode_slots=(0,)))
    assert codec.primed == [(0, 3), (2, 3), (1, 3)]


def test_a_row_whose_request_has_left_is_not_led() -> None:
    codec = NotingCodec()
    runner = FusedRunner(ToyRunner(CONTEXT), codec)
    prompt = replace(PROMPT, context_frames=REFERENCE)
    runner.launch(StepPlan(starts=(Start(0, prompt), Start(1, prompt))))
    runner.launch(StepPlan(releases=(1,), starts=(Start(1, PROMPT),)))
    assert codec.primed == [(0, 3)]


def test_only_what_has_become_audio_is_heard_again() -> None:
    codec = NotingCodec()
    runner = FusedRunner(ToyRunner(CONTEXT), codec)
    frames = tuple(np.array([220.0, 0.3]) for _ in range(5))
    prompt = replace(PROMPT, context_frames=REFERENCE)
    starts = (Start(0, prompt, frames, num_frames_decoded=2),)
    runner.launch(StepPlan(starts=starts, codec_replays=(CodecReplay(0, 0, 1),)))
    assert codec.primed == [(0, len(REFERENCE))]
    runner.launch(StepPlan(codec_replays=(CodecReplay(0, 1, 2),)))
    assert codec.primed == [(0, len(REFERENCE))]
    assert codec.replayed == [(0, 1), (0, 1)]
