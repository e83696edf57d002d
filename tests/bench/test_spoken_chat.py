"""Answers that are spoken while they are written: what comes is read, and known times count."""

import asyncio
import base64
import json

import pytest

from antiphon_bench.bodies import PcmBody, ToldError
from antiphon_bench.record import Outcome, Record
from antiphon_bench.spoken_chat import (
    SpokenLoad,
    converse,
    letters_of_bytes,
    spoken_target,
    summarize_spoken,
)
from antiphon_bench.spoken_client import SpokenAnswer, SpokenBody, SpokenExchange


def event(**audio: str) -> bytes:
    choice = {"index": 0, "delta": {"audio": {"id": "1", **audio}}, "finish_reason": None}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def samples(number: int) -> str:
    return base64.b64encode(b"\x00\x10" * number).decode()


def answer(
    sent_s: float, text_s: float, arrivals_s: tuple[float, ...], outcome: Outcome = "ok"
) -> SpokenAnswer:
    record = Record(
        index=0,
        due_s=sent_s,
        sent_s=sent_s,
        ended_s=10.0,
        outcome=outcome,
        status=200,
        num_characters=20,
        arrivals_s=arrivals_s,
        durations_s=(1.0,) * len(arrivals_s),
        message="" if outcome == "ok" else "no room",
    )
    return SpokenAnswer(record, "", text_s)


def test_text_and_samples_are_read_however_they_are_cut() -> None:
    events = event(transcript="He") + event(data=samples(5)) + event(transcript="llo")
    for size in (1, 7, 1000):
        body = SpokenBody(PcmBody())
        for start in range(0, len(events), size):
            body.feed(events[start : start + size])
        assert (body.text, body.num_samples) == ("Hello", 5)
    with pytest.raises(ToldError, match=r"It broke\."):
        body.feed(b'data: {"error": {"message": "It broke."}}\n\n')


def test_an_exchange_notes_the_first_text_and_each_piece_of_audio() -> None:
    async def exchanged() -> SpokenExchange:
        return SpokenExchange()

    exchange = asyncio.run(exchanged())
    exchange.headers["content-type"] = "text/event-stream"
    exchange.begin(200)
    for now_s, data in enumerate(
        (event(), event(transcript="He"), event(data=samples(240)), event(data=samples(480)))
    ):
        exchange.take(data, float(now_s))
    assert exchange.first_text_s == 1.0
    assert exchange.arrivals_s == [2.0, 3.0]
    assert exchange.durations_s == [0.01, 0.02]


def test_known_times_give_known_figures() -> None:
    answers = [
        answer(0.0, 1.0, (2.0, 2.5)),
        answer(1.0, 3.0, (6.0, 7.5)),
        answer(0.0, 1.0, ()),
        answer(0.0, 1.0, (), "refused"),
    ]
    result = summarize_spoken(SpokenLoad(4, 1), answers)
    assert result.outcomes == {"ok": 2, "silent": 1, "refused": 1}
    assert (result.audio_s_per_s, result.characters_per_s) == (0.4, 8.0)
    assert result.first_text_ms is not None
    assert result.audio_after_text_ms is not None
    assert result.first_audio_ms is not None
    assert result.halt_ms is not None
    assert result.playback is not None
    assert (result.first_text_ms.p50, result.first_text_ms.max) == (1500, 2000)
    assert (result.audio_after_text_ms.p50, result.audio_after_text_ms.max) == (2000, 3000)
    assert result.first_audio_ms.max == 5000
    assert result.halt_ms.max == pytest.approx(500)
    assert result.playback.continuity == 0.5
    assert result.errors == ("no room",)


def test_requests_ask_for_speech_whatever_else_they_say() -> None:
    fields = {"audio": {"voice": "alto"}, **letters_of_bytes()}
    target = spoken_target("http://127.0.0.1:9/v1", fields)
    assert target.path == "/v1/chat/completions"
    assert target.fields["audio"] == {"voice": "alto", "format": "pcm16"}
    assert (target.fields["stream"], target.fields["modalities"]) == (True, ["text", "audio"])
    assert target.fields["logit_bias"][str(ord("e"))] > 0


def test_a_conversation_ends_when_it_is_not_answered() -> None:
    target = spoken_target("http://127.0.0.1:1", {})  # nobody listens there
    answers = asyncio.run(converse(target, SpokenLoad(2, 3)))
    assert [each.record.outcome for each in answers] == ["broken"] * 2
    assert summarize_spoken(SpokenLoad(2, 3), answers).playback is None
