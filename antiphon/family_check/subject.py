"""The loaded model that `antiphon dev check-family` examines, and the form of its findings."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from antiphon.config import ModelSettings
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import (
    AudioChunk,
    Ended,
    FinishReason,
    Samples,
    Sampling,
    SpeechRequest,
    new_request_id,
)
from antiphon.family_check.host_reads import HostReads
from antiphon.family_check.texts import TEXTS
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.service import Speech
from antiphon.stages.base import StageRequest

Found = tuple[bool, str]
"""Whether a check passes, and a detail for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyCheckPlan:
    """Subject of the checks.

    Attributes:
        model: settings as of ``antiphon serve``, with the device and all else that loading needs.
        num_concurrent: requests at the same time, 2 or more.
        max_frames: limit of each segment; ``None``: the family's own. Random weights end anywhere.
    """

    model: ModelSettings
    num_concurrent: int = 4
    max_frames: int | None = None

    def text(self, number: int) -> str:
        """Return the text of request ``number``; the first ones are the longest."""
        return sorted(TEXTS, key=len, reverse=True)[number % len(TEXTS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The outcome of one check.

    Attributes:
        detail: measured values, for people.
        is_speed: whether it depends on the machine and its other load.
    """

    check: str
    is_met: bool
    detail: str
    is_speed: bool = False


OnFinding = Callable[[Finding], None]


@dataclass(slots=True)
class StageOutput:
    """Output of the stages for one prompt, before the pipeline changes it.

    Attributes:
        chunks: audio in order.
        reason: end of the stream; ``None``: it was left.
    """

    chunks: list[AudioChunk] = field(default_factory=list)
    reason: FinishReason | None = None

    @property
    def samples(self) -> Samples:
        """All samples, ``[num_samples]`` or ``[num_samples, channels]``."""
        return joined(self.chunks)

    @property
    def frames(self) -> tuple[Any, ...]:
        """Frames that the audio was decoded from; empty for a generator."""
        return tuple(frame for chunk in self.chunks for frame in chunk.frames)

    @property
    def duration_s(self) -> float:
        return sum(chunk.duration_s for chunk in self.chunks)


@dataclass(slots=True)
class Subject:
    """A loaded model.

    Attributes:
        reads: watch over the launches of the model's stages.
    """

    plan: FamilyCheckPlan
    speech: Speech
    model: SpeechModel
    reads: HostReads

    @property
    def package(self) -> str:
        return self.model.task.prompter.target.partition(":")[0].rpartition(".")[0]

    def request(self, number: int = 0, seed: int = 1, *, is_live: bool = True) -> SpeechRequest:
        return replace(
            self.model.capabilities.sample_request,
            input=self.plan.text(number),
            seed=seed,
            sampling=Sampling(max_frames=self.plan.max_frames),
            is_live=is_live,
            id=new_request_id(),
        )

    async def speak(self, request: SpeechRequest) -> Samples:
        """Return a stream's samples, ``[num_samples]`` or ``[num_samples, channels]``."""
        async with aclosing(self.speech.stream(request)) as events:
            return joined([event async for event in events if isinstance(event, AudioChunk)])

    async def prompt(self, request: SpeechRequest, seed: int = 1) -> Prompt:
        sampling = request.sampling.with_defaults(self.model.task.sampling)
        request = replace(request, sampling=sampling)
        voice = self.model.voice(request.voice, {})
        return await asyncio.to_thread(self.model.prompter.build, request, voice, seed)

    async def run(
        self, prompt: Prompt, resume_frames: Sequence[Any] = (), *, max_s: float = np.inf
    ) -> StageOutput:
        """Run the stages; leave the stream after ``max_s`` of audio."""
        request = StageRequest(
            new_request_id(),
            prompt,
            is_live=False,
            resume_frames=tuple(resume_frames),
            returns_frames=True,
        )
        output = StageOutput()
        async with aclosing(self.model.open(request)) as items:
            async for item in items:
                if isinstance(item, Ended):
                    output.reason = item.reason
                elif isinstance(item, AudioChunk):
                    output.chunks.append(item)
                    if output.duration_s > max_s:
                        break
        return output


Check = Callable[[Subject], Awaitable[Found]]


def joined(chunks: Sequence[AudioChunk]) -> Samples:
    """Return the samples of chunks, ``[num_samples]`` or ``[num_samples, channels]``."""
    samples = [chunk.samples for chunk in chunks]
    return np.concatenate(samples) if samples else np.zeros(0, np.float32)


def same(one: Samples, other: Samples) -> Found:
    """Compare to the last bit."""
    if one.shape != other.shape:
        return False, f"{len(one)} and {len(other)} samples"
    differ = np.flatnonzero((one != other).reshape(len(one), -1).any(1))
    if len(differ):
        worst = float(np.abs(one - other).max())
        return False, f"{len(differ)} samples differ, first {differ[0]}, by up to {worst:.1e}"
    return True, f"{len(one)} samples, to the last bit"
