"""The same over HTTP: a listener who plays what arrives, alone and among others."""

import asyncio
import base64
import io
import time
import wave
from collections.abc import Sequence
from typing import Any

import numpy as np

from antiphon.bench.connection import SpeechClient
from antiphon.bench.family_subject import FamilyCheckPlan, Finding, OnFinding
from antiphon.bench.playback import underrun_s
from antiphon.bench.record import Record
from antiphon.bench.serve import target_of
from antiphon.contracts.family import SpeechCapabilities
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.types import Samples

HALT_S = 0.001
"""Shortest halt that counts: a sample is 42 microseconds."""

HUM_S = 4.0


async def check_over_http(
    plan: FamilyCheckPlan, url: str, capabilities: SpeechCapabilities, on_finding: OnFinding
) -> None:
    """Send speech requests to a server that has the model, first alone, then many at once.

    Args:
        plan: plan of the check.
        url: URL of the server.
        capabilities: capabilities of the model; its sample request holds what each request needs.
        on_finding: callback for each finding.
    """
    fields = {"response_format": "pcm", "seed": 1, **fields_of(capabilities)}
    if plan.max_frames is not None:
        fields["max_new_tokens"] = plan.max_frames + 1  # the token that ends speech counts
    client = SpeechClient(target_of(url, api_key=None, fields=fields))

    async def speak(number: int) -> Record:
        return await client.speak(number, plan.text(number), time.monotonic())

    try:
        alone = [await speak(0)]
        for finding in heard("HTTP stream", alone):
            on_finding(finding)
        crowd = await asyncio.gather(*map(speak, range(plan.num_concurrent)))
        for finding in heard(f"{plan.num_concurrent} HTTP streams at once", crowd):
            on_finding(finding)
    finally:
        client.close()


def fields_of(capabilities: SpeechCapabilities) -> dict[str, Any]:
    """Return the members other than text without which the model does not accept a request.

    Recordings go as data URLs, and so does a hum in the place of a voice that was prepared from
    one; other options go as the JSON that they are.
    """
    sample, rate_hz = capabilities.sample_request, capabilities.sample_rate_hz
    members = {"instructions": sample.instructions, "language": sample.language, **sample.options}
    fields: dict[str, Any] = {}
    for name, value in members.items():
        if isinstance(value, PreparedVoice):
            fields[name] = _recording(_hum(rate_hz), rate_hz)
        elif isinstance(value, np.ndarray):
            fields[name] = _recording(value, rate_hz)
        elif value is not None:
            fields[name] = value
    return fields


def _hum(rate_hz: int) -> Samples:
    """Return a sound that rises and falls as syllables do, to be taken for a voice."""
    times_s = np.arange(int(HUM_S * rate_hz)) / rate_hz
    harmonics = sum(np.sin(2 * np.pi * 130 * k * times_s) / k for k in range(1, 12))
    return np.asarray(0.2 * harmonics * np.sin(2 * np.pi * 2 * times_s) ** 2, np.float32)


def _recording(samples: Samples, rate_hz: int) -> str:
    """Return samples as the data URL of a WAV file."""
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes((samples.clip(-1, 1) * 32767).astype("<i2").tobytes())
    return f"data:audio/wav;base64,{base64.b64encode(content.getvalue()).decode()}"


def heard(title: str, records: Sequence[Record]) -> list[Finding]:
    """Return findings about playback that begins with the first audio."""
    failed = [each for each in records if each.outcome != "ok" or not each.arrivals_s]
    if failed:
        reason = failed[0].message or failed[0].outcome
        detail = f"{len(failed)} of {len(records)} failed: {reason}"
        # To refuse what cannot be spoken without gaps is right on a machine that is too slow.
        is_speed = all(each.outcome == "refused" for each in failed)
        return [Finding(check=title, is_met=False, detail=detail, is_speed=is_speed)]
    audio_s = sum(each.audio_s for each in records)
    pieces = min(len(each.arrivals_s) for each in records)
    answered = Finding(
        check=title, is_met=True, detail=f"{audio_s:.2f} s of audio, {pieces} pieces or more each"
    )
    halts_s = [underrun_s(each.arrivals_s, each.durations_s) for each in records]
    first_ms = max(each.arrivals_s[0] - each.sent_s for each in records) * 1000
    num_halted = sum(halt_s > HALT_S for halt_s in halts_s)
    gaps = Finding(
        check=f"{title}: gaps",
        is_met=num_halted == 0,
        detail=f"{num_halted} of {len(records)} halt, for {max(halts_s) * 1000:.0f} ms at most;"
        f" first audio within {first_ms:.0f} ms",
        is_speed=True,
    )
    return [answered, gaps]
