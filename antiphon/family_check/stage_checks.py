"""Checks of a family's stages: rate, resumption, the end of speech, and reads by the host."""

from dataclasses import replace

import numpy as np

from antiphon.contracts.family import StageKind
from antiphon.contracts.types import Sampling
from antiphon.family_check.subject import Found, StageOutput, Subject, same

_MAX_S = 60.0
"""Audio of the sample request's few words, after which speech does not end by itself."""
_NUM_WATCHED_FRAMES = 12


async def ends(subject: Subject) -> Found:
    """Run the sample request without ``max_new_tokens``."""
    prompt = await subject.prompt(subject.model.capabilities.sample_request)
    limit = prompt.sampling.max_frames
    makes_frames = subject.model.task.pipeline[0].kind is StageKind.AUTOREGRESSIVE
    if limit is None and makes_frames and not subject.reads.has_cache:
        return False, "the family sets no limit of frames: give the task a default 'max_frames'"
    if subject.plan.max_frames is not None:
        bound = "the cache" if limit is None else f"{limit} frames"
        return True, f"random weights do not end; the family's limit is {bound}"
    output = await subject.run(prompt, max_s=_MAX_S)
    summary = f"{prompt.num_tokens} tokens of text: {output.duration_s:.1f} s of audio"
    if output.reason == "stop":
        return True, summary
    return False, f"{summary}, and no end (finish reason: {output.reason})"


async def has_declared_rate(subject: Subject) -> Found:
    """Compare the audio's rate, channels and length with what codec and family declare."""
    declared = subject.model.capabilities
    output = await subject.run(await subject.prompt(subject.request()))
    for chunk in output.chunks:
        channels = 1 if chunk.samples.ndim == 1 else chunk.samples.shape[1]
        if chunk.sample_rate_hz != declared.sample_rate_hz:
            return False, (
                f"audio of {chunk.sample_rate_hz} Hz, the family declares"
                f" {declared.sample_rate_hz} Hz"
            )
        if channels != declared.channels:
            return False, f"{channels} channels, the family declares {declared.channels}"
    per_frame = subject.reads.samples_per_frame
    if per_frame is not None and len(output.frames):
        expected = per_frame * len(output.frames)
        if len(output.samples) != expected:
            return False, (
                f"{len(output.samples)} samples of {len(output.frames)} frames, the codec declares"
                f" {per_frame} a frame: {expected}"
            )
    return True, f"{declared.sample_rate_hz} Hz"


async def resumes(subject: Subject) -> Found:
    """Run a request again after some of its frames, as another replica does if one is lost."""
    prompt = await subject.prompt(subject.request())
    whole = await subject.run(prompt)
    num_frames = len(whole.frames)
    if not num_frames:
        return True, "a generator makes its audio again"
    for num_made in sorted({1, num_frames // 2, num_frames - 1} - {0, num_frames}):
        rest = await subject.run(prompt, whole.frames[:num_made])
        if (problem := _resume_problem(whole, rest, num_made, subject)) is not None:
            return False, f"after {num_made} of {num_frames} frames: {problem}"
    return True, f"{num_frames} frames, cut at three places"


def _resume_problem(
    whole: StageOutput, rest: StageOutput, num_made: int, subject: Subject
) -> str | None:
    expected, frames = whole.frames[num_made:], rest.frames
    if len(frames) != len(expected):
        return f"{len(frames)} frames follow instead of {len(expected)}"
    differ = [
        number
        for number, (one, other) in enumerate(zip(expected, frames, strict=True))
        if not np.array_equal(one, other)
    ]
    if differ:
        return f"{len(differ)} frames differ, first frame {num_made + differ[0]}"
    if (per_frame := subject.reads.samples_per_frame) is None:
        return None
    is_same, detail = same(whole.samples[num_made * per_frame :], rest.samples)
    return None if is_same else detail


async def reads_nothing(subject: Subject) -> Found:
    """Watch the launches of steps that only make frames and decode them."""
    request = replace(subject.request(), sampling=Sampling(max_frames=_NUM_WATCHED_FRAMES))
    subject.reads.is_on = True
    try:
        await subject.run(await subject.prompt(request))
    finally:
        subject.reads.is_on = False
    if places := subject.reads.places:
        listed = ", ".join(f".{operation}() at {place}" for place, operation in places.items())
        return False, f"waits for the device in a step: {listed}"
    if not subject.reads.num_watched:
        return True, "no steps in PyTorch"
    return True, f"{subject.reads.num_watched} launches"
