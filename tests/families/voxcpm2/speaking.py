"""Drives the family's runner and decoder as the engine does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.codec.protocol import StreamingDecoder
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Samples, Sampling, SpeechRequest
from antiphon.engine.plan import CodecChunk, Start
from antiphon.engine.runner import Runner
from antiphon.families.voxcpm2.prompt import VoxCPM2Prompter
from antiphon.families.voxcpm2.request import patches_of
from tests.engine.drive import Drive

DEFAULT = Sampling()


@dataclass(slots=True)
class Spoken:
    """What came of one request."""

    frames: list[NDArray[np.int64]] = field(default_factory=list)
    end: str | None = None

    @property
    def patches(self) -> NDArray[np.float32]:
        return patches_of(np.stack(self.frames))


def ask(
    prompter: VoxCPM2Prompter,
    text: str = "Hello there.",
    seed: int = 1,
    *,
    instructions: str | None = None,
    sampling: Sampling = DEFAULT,
    **options: Any,
) -> Prompt:
    request = SpeechRequest(text, instructions=instructions, sampling=sampling, options=options)
    return prompter.build(request, prompter.capabilities.voices[0], seed)


def speak(
    runner: Runner,
    prompts: Mapping[int, Prompt],
    *,
    num_steps: int = 12,
    before: Mapping[int, Sequence[NDArray[np.int64]]] | None = None,
) -> dict[int, Spoken]:
    """Start prompts at once, in the slots they are keyed by, after the frames made before."""
    drive = Drive(runner)
    made = {slot: tuple((before or {}).get(slot, ())) for slot in prompts}
    spoken = {slot: Spoken([*made[slot]]) for slot in prompts}
    starts = tuple(Start(slot, prompt, made[slot]) for slot, prompt in prompts.items())
    for _ in range(num_steps):
        slots = tuple(slot for slot, each in spoken.items() if each.end is None)
        if not slots:
            break
        output = drive.step(slots, starts=starts)
        starts = ()
        for slot, frame in output.frames.items():
            spoken[slot].frames.append(frame)
        for end, ended in (
            ("stopped", output.stopped),
            ("lengths", output.lengths),
            ("error", drive.faults),
        ):
            for slot in ended:
                spoken[slot].end = end
    drive.step(releases=tuple(prompts))
    return spoken


def decode(
    codec: StreamingDecoder,
    frames: Sequence[NDArray[np.int64]],
    sizes: Sequence[int] | None = None,
    context: NDArray[Any] | None = None,
) -> Samples:
    """Decode a stream in chunks of these sizes; default: all at once."""
    state = codec.open(2)
    if context is not None:
        codec.prime(state, 1, context)
    store = np.zeros((2, len(frames), len(frames[0])), np.int64)
    store[1] = frames
    start, chunks = 0, []
    for size in sizes or (len(frames),):
        chunks.append(codec.launch([CodecChunk(1, start, size)], store, state).result()[1])
        start += size
    return np.concatenate(chunks)
