"""Listeners over HTTP are judged by what they would have heard."""

import asyncio
import base64
import json
from dataclasses import replace

import numpy as np
import pytest

from antiphon.config import ModelSettings
from antiphon.contracts.family import SpeechCapabilities
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.types import SpeechRequest, Voice
from antiphon.family_check.over_http import (
    HUM_S,
    Answer,
    check_over_http,
    fields_of,
    playback_findings,
)
from antiphon.family_check.subject import FamilyCheckPlan, Finding
from tests.decoding import decoded
from tests.servers import start_server

CAPABILITIES = SpeechCapabilities(sample_rate_hz=24_000, voices=(Voice(id="one", name="One"),))


def answer(*arrivals_s: float, status: int = 200, error: str = "") -> Answer:
    durations_s = (1.0,) * len(arrivals_s)
    return Answer(status=status, error=error, arrivals_s=arrivals_s, durations_s=durations_s)


FAILED = answer(status=500, error="too much")
REFUSED = answer(status=429, error="too much")


@pytest.mark.parametrize(
    ("arrivals_s", "is_met"),
    [((0.5, 1.4, 2.4), True), ((0.5, 1.6), False), ((0.5, 0.6, 2.51), False)],
)
def test_a_halt_is_a_gap(arrivals_s: tuple[float, ...], is_met: bool) -> None:
    answered, gaps = playback_findings("stream", [answer(0.1, 0.2), answer(*arrivals_s)])
    assert answered.is_met
    assert (gaps.is_met, gaps.is_speed) == (is_met, True)
    assert "within 500 ms" in gaps.detail


def test_an_answer_that_failed_is_no_matter_of_speed() -> None:
    for bad in (FAILED, answer(error="too much")):
        [finding] = playback_findings("stream", [answer(0.1), bad])
        assert not finding.is_met
        assert not finding.is_speed
        assert finding.detail == "1 of 2 failed: too much"


def test_a_refusal_is_a_matter_of_speed() -> None:
    [finding] = playback_findings("stream", [answer(0.1), REFUSED])
    assert (finding.is_met, finding.is_speed) == (False, True)
    [finding] = playback_findings("stream", [FAILED, REFUSED])
    assert (finding.is_met, finding.is_speed) == (False, False)


def test_requests_bring_what_the_model_needs() -> None:
    assert fields_of(CAPABILITIES) == {}
    tone = np.sin(np.arange(2400, dtype=np.float32) / 9)
    sample = SpeechRequest(
        "Ready.", instructions="Calm.", options={"ref_audio": tone, "speaker_embedding": (0.0, 1.0)}
    )
    fields = fields_of(replace(CAPABILITIES, sample_request=sample))
    assert fields["instructions"] == "Calm."
    assert json.loads(json.dumps(fields))["speaker_embedding"] == [0.0, 1.0]
    header, _, content = fields["ref_audio"].partition(",")
    assert header == "data:audio/wav;base64"
    samples, rate_hz = decoded(base64.b64decode(content), "wav", 0)
    assert rate_hz == 24_000
    np.testing.assert_allclose(samples, tone, atol=1e-4)

    voice = PreparedVoice(name="a", family="b", speaker_embedding=np.zeros(4, np.float32))
    prepared = SpeechRequest("Ready.", options={"ref_audio": voice})
    told = fields_of(replace(CAPABILITIES, sample_request=prepared))["ref_audio"]
    samples, _ = decoded(base64.b64decode(told.partition(",")[2]), "wav", 0)
    assert len(samples) == HUM_S * 24_000
    assert 0.1 < np.abs(samples).max() < 1


def test_a_server_is_asked_alone_and_by_many() -> None:
    plan = FamilyCheckPlan(model=ModelSettings(source="toy"), num_concurrent=3, max_frames=30)
    found: list[Finding] = []
    with start_server() as server:
        asyncio.run(check_over_http(plan, server.base_url, CAPABILITIES, found.append))
    assert [each.check for each in found] == [
        *("HTTP stream", "HTTP stream: gaps"),
        *("3 HTTP streams at once", "3 HTTP streams at once: gaps"),
    ]
    assert all(each.is_met for each in found if not each.is_speed)
    assert "s of audio" in found[0].detail
