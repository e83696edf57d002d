"""Checks of a family on a loaded model: length, exactness, cancellation, memory, a reference."""

import asyncio
import time
from contextlib import aclosing
from dataclasses import replace
from functools import partial

import numpy as np

from antiphon.config import SpeechSettings
from antiphon.contracts.family import SpeechCapabilities
from antiphon.contracts.types import Samples
from antiphon.errors import AntiphonError
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.pool import ModelPool
from antiphon.family_check.host_reads import HostReads
from antiphon.family_check.memory_check import frees_memory
from antiphon.family_check.reference_check import ExpectedOutput, equals_reference
from antiphon.family_check.stage_checks import ends, has_declared_rate, reads_nothing, resumes
from antiphon.family_check.subject import (
    Check,
    FamilyCheckPlan,
    Finding,
    Found,
    OnFinding,
    Subject,
    same,
)
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.service import Speech

SILENT = 1e-4
"""Audio below this everywhere is silence: -80 dB of full scale."""


ENDS = "speech ends"
BOUNDED_FRAMES = 40
"""Limit of frames for a family whose speech does not end."""


async def check_in_process(
    plan: FamilyCheckPlan, on_finding: OnFinding, reference: ExpectedOutput | None = None
) -> SpeechCapabilities:
    """Load the model in this process and check it; raises ModelLoadError.

    Returns:
        What the model can do.
    """
    reads = HostReads()
    pool = ModelPool(LocalFabric(reads.build))
    model = await SpeechModel.load(plan.model, pool=pool)
    speech = Speech({model.name: model}, SpeechSettings())
    subject = Subject(plan, speech, model, reads)
    checks = dict(_CHECKS)
    if reference is not None:
        checks["equals the reference"] = partial(equals_reference, reference=reference)
    try:
        await pool.preload()
        await model.warm_up()
        if not await _check(subject, ENDS, ends, on_finding):
            subject.plan = replace(plan, max_frames=BOUNDED_FRAMES)
        await _check(subject, "declared rate and length", has_declared_rate, on_finding)
        await _check_offline(subject, on_finding)
        for name, check in checks.items():
            await _check(subject, name, check, on_finding)
        return model.capabilities
    finally:
        speech.close()
        await model.close()


async def _check(subject: Subject, name: str, check: Check, on_finding: OnFinding) -> bool:
    try:
        is_met, detail = await check(subject)
    except (AntiphonError, ValueError) as error:  # ValueError: arrays that do not fit
        is_met, detail = False, str(error)
    on_finding(Finding(check=name, is_met=is_met, detail=detail))
    return is_met


async def _check_offline(subject: Subject, on_finding: OnFinding) -> None:
    began_s = time.perf_counter()
    try:
        samples = await subject.speak(subject.request(is_live=False))
    except (AntiphonError, ValueError) as error:
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


def sound_of(samples: Samples, audio_s: float) -> Found:
    """Judge a whole file: it must have samples, all finite, none beyond full scale, not silent."""
    if not len(samples):
        return False, "no audio at all"
    if not np.isfinite(samples).all():
        return False, "samples that are not finite"
    peak = float(np.abs(samples).max())
    summary = f"{audio_s:.2f} s, peak {peak:.3f}"
    return SILENT < peak <= 1.0, summary


async def _streaming_is_whole(subject: Subject) -> Found:
    live, whole = [
        await subject.speak(subject.request(is_live=is_live)) for is_live in (True, False)
    ]
    return same(live, whole)


async def _seeds(subject: Subject) -> Found:
    first, again, other = [await subject.speak(subject.request(seed=seed)) for seed in (1, 1, 2)]
    repeats, detail = same(first, again)
    if not repeats:
        return False, f"the same seed: {detail}"
    if np.array_equal(first, other):
        return False, "another seed gives the same audio"
    return True, "repeats; another seed differs"


async def _crowd(subject: Subject) -> Found:
    numbers = range(subject.plan.num_concurrent)
    requests = [subject.request(number, seed=number) for number in numbers]
    crowd = await asyncio.gather(*map(subject.speak, requests))
    for number, (request, together) in enumerate(zip(requests, crowd, strict=True)):
        is_same, detail = same(await subject.speak(request), together)
        if not is_same:
            return False, f"request {number}: {detail}"
    return True, f"{len(requests)} requests, each as if it were alone"


async def _cancel(subject: Subject) -> Found:
    """Leave streams after their first chunk, and one at any moment."""
    for _ in range(3):
        async with aclosing(subject.speech.stream(subject.request())) as events:
            await anext(events)
    task = asyncio.create_task(subject.speak(subject.request()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    num_open = subject.model.fabric.num_open
    if num_open:
        return False, f"{num_open} streams are open after their listeners have left"
    return True, "nothing is left open"


_CHECKS: dict[str, Check] = {
    "streaming equals whole": _streaming_is_whole,
    "seeds": _seeds,
    "alone equals together": _crowd,
    "cancelling": _cancel,
    "resuming": resumes,
    "no reads in a step": reads_nothing,
    "memory": frees_memory,
}
