"""The same over HTTP: a listener who plays what arrives, alone and among others."""

import asyncio
import base64
import io
import json
import time
import wave
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import httpcore2
import numpy as np

from antiphon.contracts.family import SpeechCapabilities
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.types import Samples
from antiphon.family_check.subject import FamilyCheckPlan, Finding, OnFinding

HALT_S = 0.001
"""Shortest halt that counts: a sample is 42 microseconds."""

HUM_S = 4.0
_TIMEOUT_S = 600.0
_REFUSED = 429
_JSON = [("Content-Type", "application/json")]
_FAULTS = (httpcore2.NetworkError, httpcore2.ProtocolError, TimeoutError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer to one request, as a listener received it; times are seconds from the request.

    Attributes:
        status: HTTP status; 0 if there was no response.
        error: Reason why it is not whole; "" if it is.
    """

    status: int = 0
    error: str = ""
    arrivals_s: Sequence[float] = ()
    durations_s: Sequence[float] = ()

    @property
    def halt_s(self) -> float:
        """Time for which playback that begins with the first audio halts to wait for more."""
        plays_s = accumulate(self.durations_s, initial=self.arrivals_s[0])
        return max(at_s - due_s for at_s, due_s in zip(self.arrivals_s, plays_s, strict=False))


async def check_over_http(
    plan: FamilyCheckPlan, url: str, capabilities: SpeechCapabilities, on_finding: OnFinding
) -> None:
    """Send speech requests to a server that has the model, first alone, then many at once.

    Args:
        capabilities: capabilities of the model; its sample request holds what each request needs.
    """
    fields = {"response_format": "pcm", "seed": 1, **fields_of(capabilities)}
    if plan.max_frames is not None:
        fields["max_new_tokens"] = plan.max_frames + 1  # the token that ends speech counts
    async with httpcore2.AsyncConnectionPool(max_connections=plan.num_concurrent) as pool:

        async def speak(number: int) -> Answer:
            body = {**fields, "input": plan.text(number)}
            return await _answer(pool, f"{url}/v1/audio/speech", body, capabilities)

        for finding in playback_findings("HTTP stream", [await speak(0)]):
            on_finding(finding)
        crowd = await asyncio.gather(*map(speak, range(plan.num_concurrent)))
        for finding in playback_findings(f"{plan.num_concurrent} HTTP streams at once", crowd):
            on_finding(finding)


async def _answer(
    pool: httpcore2.AsyncConnectionPool,
    url: str,
    body: Mapping[str, Any],
    capabilities: SpeechCapabilities,
) -> Answer:
    bytes_per_s = 2 * capabilities.channels * capabilities.sample_rate_hz
    status, error, arrivals_s, sizes = 0, b"", list[float](), list[int]()
    content = json.dumps(body).encode()
    sent_s = time.monotonic()
    try:
        async with (
            asyncio.timeout(_TIMEOUT_S),
            pool.stream("POST", url, headers=_JSON, content=content) as response,
        ):
            status = response.status
            async for piece in response.aiter_stream():
                if status == 200:
                    arrivals_s.append(time.monotonic() - sent_s)
                    sizes.append(len(piece))
                else:
                    error += piece
    except _FAULTS as fault:
        return Answer(status=status, error=str(fault) or type(fault).__name__)
    if status != 200:
        return Answer(status=status, error=error.decode(errors="replace") or f"HTTP {status}")
    if not sum(sizes) or sum(sizes) % (2 * capabilities.channels):
        return Answer(status=status, error=f"{sum(sizes)} bytes are no audio")
    durations_s = [size / bytes_per_s for size in sizes]
    return Answer(status=status, arrivals_s=arrivals_s, durations_s=durations_s)


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


def playback_findings(title: str, answers: Sequence[Answer]) -> list[Finding]:
    """Return findings about playback that begins with the first audio."""
    failed = [each for each in answers if each.error]
    if failed:
        detail = f"{len(failed)} of {len(answers)} failed: {failed[0].error}"
        # To refuse what cannot be spoken without gaps is right on a machine that is too slow.
        is_speed = all(each.status == _REFUSED for each in failed)
        return [Finding(check=title, is_met=False, detail=detail, is_speed=is_speed)]
    audio_s = sum(sum(each.durations_s) for each in answers)
    pieces = min(len(each.arrivals_s) for each in answers)
    answered = Finding(
        check=title, is_met=True, detail=f"{audio_s:.2f} s of audio, {pieces} pieces or more each"
    )
    halts_s = [each.halt_s for each in answers]
    first_ms = max(each.arrivals_s[0] for each in answers) * 1000
    num_halted = sum(halt_s > HALT_S for halt_s in halts_s)
    gaps = Finding(
        check=f"{title}: gaps",
        is_met=num_halted == 0,
        detail=f"{num_halted} of {len(answers)} halt, for {max(halts_s) * 1000:.0f} ms at most;"
        f" first audio within {first_ms:.0f} ms",
        is_speed=True,
    )
    return [answered, gaps]
