"""What a family owes its listeners, checked on a loaded model: length, exactness, cancellation."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

import numpy as np

from antiphon.bench.texts import TEXTS
from antiphon.config import ModelSettings, SpeechSettings
from antiphon.errors import AntiphonError
from antiphon.models.spec import SpeechCapabilities
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.service import Speech
from antiphon.types import AudioChunk, Samples, Sampling, SpeechRequest, new_request_id

SILENT = 1e-4
"""Audio below this everywhere is silence: -80 dB of full scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyCheckPlan:
    """What is checked.

    Attributes:
        model: as of ``antiphon serve``; with `device` and all else that loading needs.
        num_concurrent: requests at the same time, 2 or more.
        max_frames: of each segment; ``None``: the family's own limit. Random weights never end.
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
        check: what was checked.
        is_met: whether it holds.
        detail: what was found, for people.
        is_speed: whether it depends on the machine, and on what else that is doing.
    """

    check: str
    is_met: bool
    detail: str
    is_speed: bool = False


OnFinding = Callable[[Finding], None]


@dataclass(frozen=True, slots=True)
class _Subject:
    plan: FamilyCheckPlan
    speech: Speech
    model: SpeechModel

    def request(self, number: int = 0, seed: int = 1, *, is_live: bool = True) -> SpeechRequest:
        return replace(
            self.model.capabilities.sample_request,
            input=self.plan.text(number),
            seed=seed,
            sampling=Sampling(max_frames=self.plan.max_frames),
            is_live=is_live,
            id=new_request_id(),
        )

    async def say(self, request: SpeechRequest) -> Samples:
        """Return a stream's samples, ``[num_samples]`` or ``[num_samples, channels]``."""
        async with aclosing(self.speech.stream(request)) as events:
            chunks = [event.samples async for event in events if isinstance(event, AudioChunk)]
        return np.concatenate(chunks) if chunks else np.zeros(0, np.float32)


_Found = tuple[bool, str]
_Check = Callable[[_Subject], Awaitable[_Found]]


async def check_in_process(plan: FamilyCheckPlan, on_finding: OnFinding) -> SpeechCapabilities:
    """Load the model in this process and check it; each finding goes to ``on_finding``.

    Returns:
        What the model can do.

    Raises:
        ModelLoadError: it cannot be loaded.
    """
    model = await SpeechModel.load(plan.model)
    speech = Speech({model.name: model}, SpeechSettings())
    subject = _Subject(plan, speech, model)
    try:
        await model.warm_up()
        await _check_offline(subject, on_finding)
        for name, check in _CHECKS.items():
            try:
                is_met, detail = await check(subject)
            except AntiphonError as error:
                is_met, detail = False, str(error)
            on_finding(Finding(check=name, is_met=is_met, detail=detail))
        return model.capabilities
    finally:
        speech.close()
        await model.close()


async def _check_offline(subject: _Subject, on_finding: OnFinding) -> None:
    began_s = time.perf_counter()
    try:
        samples = await subject.say(subject.request(is_live=False))
    except AntiphonError as error:
        on_finding(Finding(check="offline: audio", is_met=False, detail=str(error)))
        return
    took_s = time.perf_counter() - began_s
    audio_s = len(samples) / subject.model.capabilities.sample_rate_hz
    is_met, detail = sound_of(samples, audio_s)
    on_finding(Finding(check="offline: audio", is_met=is_met, detail=detail))
    factor = took_s / audio_s if audio_s else float("inf")
    detail = f"{factor:.3f}: {took_s:.2f} s for {audio_s:.2f} s of audio"
    speed = Finding(check="offline: RTF", is_met=factor < 1, detail=detail, is_speed=True)
    on_finding(speed)


def sound_of(samples: Samples, audio_s: float) -> _Found:
    """Judge a whole file: it must have samples, all finite, none beyond full scale, not silent."""
    if not len(samples):
        return False, "no audio at all"
    if not np.isfinite(samples).all():
        return False, "samples that are not finite"
    peak = float(np.abs(samples).max())
    said = f"{audio_s:.2f} s, peak {peak:.3f}"
    return SILENT < peak <= 1.0, said


async def _streaming_is_whole(subject: _Subject) -> _Found:
    live, whole = [await subject.say(subject.request(is_live=is_live)) for is_live in (True, False)]
    return same(live, whole)


async def _seeds(subject: _Subject) -> _Found:
    first, again, other = [await subject.say(subject.request(seed=seed)) for seed in (1, 1, 2)]
    repeats, detail = same(first, again)
    if not repeats:
        return False, f"the same seed: {detail}"
    if np.array_equal(first, other):
        return False, "another seed gives the same audio"
    return True, "repeats; another seed differs"


async def _crowd(subject: _Subject) -> _Found:
    numbers = range(subject.plan.num_concurrent)
    requests = [subject.request(number, seed=number) for number in numbers]
    crowd = await asyncio.gather(*map(subject.say, requests))
    for number, (request, together) in enumerate(zip(requests, crowd, strict=True)):
        is_same, detail = same(await subject.say(request), together)
        if not is_same:
            return False, f"request {number}: {detail}"
    return True, f"{len(requests)} requests, each as if it were alone"


async def _cancel(subject: _Subject) -> _Found:
    """Leave streams after their first chunk, and one at any moment."""
    for _ in range(3):
        async with aclosing(subject.speech.stream(subject.request())) as events:
            await anext(events)
    task = asyncio.create_task(subject.say(subject.request()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    num_open = subject.model.fabric.num_open
    if num_open:
        return False, f"{num_open} streams are open after their listeners have left"
    return True, "nothing is left open"


_CHECKS: dict[str, _Check] = {
    "streaming equals whole": _streaming_is_whole,
    "seeds": _seeds,
    "alone equals together": _crowd,
    "cancelling": _cancel,
}


def same(one: Samples, other: Samples) -> _Found:
    """Compare to the last bit."""
    if one.shape != other.shape:
        return False, f"{len(one)} and {len(other)} samples"
    differ = np.flatnonzero((one != other).reshape(len(one), -1).any(1))
    if len(differ):
        worst = float(np.abs(one - other).max())
        return False, f"{len(differ)} samples differ, first {differ[0]}, by up to {worst:.1e}"
    return True, f"{len(one)} samples, to the last bit"
