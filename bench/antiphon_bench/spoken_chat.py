"""Benchmark of conversations with a server whose answers are spoken while they are written."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from antiphon_bench.chat import QUESTION
from antiphon_bench.load import TIMEOUT_S, Target
from antiphon_bench.machine import provenance
from antiphon_bench.playback import underrun_s
from antiphon_bench.serve import target_of
from antiphon_bench.spoken_client import SpokenAnswer, SpokenChatClient
from antiphon_bench.summary import Percentiles, PlaybackSummary

_FURTHER_QUESTION = "And what came after that?"
_SILENT = "silent"
_LETTERS, _LETTER_BIAS = "etaoinshrdlu", 60.0
_SPACE_BIAS, _STOP_BIAS = 63.0, 58.0


@dataclass(frozen=True, slots=True)
class SpokenLoad:
    """One measurement to be made.

    Attributes:
        concurrency: conversations at the same time.
        num_turns: answers of each, the next one being asked for when one has ended.
        ramp_s: period over which the conversations begin, at equal intervals.
    """

    concurrency: int
    num_turns: int
    ramp_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenResult:
    """Result of a load. Times are of complete answers, with text and audio.

    Attributes:
        outcomes: answers by what became of them; see `antiphon_bench.record.Outcome`. ``silent``:
            whole, but without audio or text. A conversation ends with an answer that is not "ok".
        wall_s: time from the first request to the end of the last answer.
        audio_s_per_s: seconds of audio per second, all conversations together.
        characters_per_s: written characters per second, all conversations together.
        first_text_ms: time from a request to the first text of its answer.
        audio_after_text_ms: time from the first text to the first audio.
        first_audio_ms: time from the request to the first audio.
        halt_ms: total underrun of each answer, for a playback that begins with the first chunk.
        client_cpu_share: share of a core that the client used; near 1 the client was the
            bottleneck.
        errors: the first few messages.
    """

    concurrency: int
    outcomes: dict[str, int]
    wall_s: float
    audio_s_per_s: float
    characters_per_s: float
    first_text_ms: Percentiles | None
    audio_after_text_ms: Percentiles | None
    first_audio_ms: Percentiles | None
    halt_ms: Percentiles | None
    playback: PlaybackSummary | None
    client_cpu_share: float
    errors: tuple[str, ...]


def spoken_target(
    url: str,
    fields: Mapping[str, Any],
    api_key: str | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Target:
    """Return a server's endpoint of chats, of its address with or without ``/v1`` at its end.

    Args:
        fields: members of each request, of which those that ask for a stream of speech are added.
        api_key: API key of the server; ``None``: no key.
        timeout_s: within which an answer must be complete.

    Raises:
        SettingsError: The URL is not the address of a server.
    """
    pcm = {"response_format": "pcm"}
    speech = target_of(url, api_key=api_key, fields=pcm, timeout_s=timeout_s)
    audio = {**fields.get("audio", {}), "format": "pcm16"}
    asked = {**fields, "stream": True, "modalities": ["text", "audio"], "audio": audio}
    path = speech.path.removesuffix("audio/speech") + "chat/completions"
    return replace(speech, path=path, fields=asked)


def letters_of_bytes() -> dict[str, Any]:
    """Return members of a request that make random weights, whose tokens are bytes, write words.

    The words consist of random letters; without the bias, the text would be unpronounceable.
    """
    bias = {ord(letter): _LETTER_BIAS for letter in _LETTERS}
    bias |= {ord(" "): _SPACE_BIAS, ord("."): _STOP_BIAS}
    named = {str(token): value for token, value in bias.items()}
    return {"logit_bias": named, "temperature": 1.0, "top_p": 1.0}


def measure_spoken(
    target: Target,
    loads: Sequence[SpokenLoad],
    on_result: Callable[[SpokenResult], None] | None = None,
) -> dict[str, Any]:
    """Warm a server with one conversation, run all loads, and return the figures for JSON.

    Args:
        target: server; see `spoken_target`.
        on_result: callback with each load's figures as soon as they are known.
    """
    asyncio.run(converse(target, SpokenLoad(1, 1)))
    results, number = [], 1
    for load in loads:
        began_cpu_s, began_s = time.process_time(), time.monotonic()
        answers = asyncio.run(converse(target, load, number))
        busy_s, wall_s = time.process_time() - began_cpu_s, time.monotonic() - began_s
        number += load.concurrency * load.num_turns
        result = summarize_spoken(load, answers, client_cpu_share=busy_s / wall_s)
        if on_result is not None:
            on_result(result)
        results.append(asdict(result))
    report = {
        **provenance(),
        "kind": "spoken_chat",
        "fields": dict(target.fields),
        "loads": [asdict(load) for load in loads],
        "results": results,
    }
    return dict(target.redaction.value(report))


async def converse(target: Target, load: SpokenLoad, first_number: int = 0) -> list[SpokenAnswer]:
    """Lead all conversations of a load, and return all of their answers.

    Args:
        target: server; see `spoken_target`.
        first_number: number of the first request; each request has a number of its own.
    """
    client = SpokenChatClient(target)

    async def lead(order: int) -> list[SpokenAnswer]:
        await asyncio.sleep(load.ramp_s * order / load.concurrency)
        number = first_number + order * load.num_turns
        messages = [{"role": "user", "content": f"{number}. {QUESTION}"}]
        answers: list[SpokenAnswer] = []
        for turn in range(load.num_turns):
            answers.append(await client.answer(number + turn, messages))
            if answers[-1].record.outcome != "ok":
                break
            messages.append({"role": "assistant", "content": answers[-1].text})
            messages.append({"role": "user", "content": _FURTHER_QUESTION})
        return answers

    try:
        found = await asyncio.gather(*(lead(order) for order in range(load.concurrency)))
    finally:
        client.close()
    return [answer for answers in found for answer in answers]


def summarize_spoken(
    load: SpokenLoad, answers: Sequence[SpokenAnswer], *, client_cpu_share: float = 0.0
) -> SpokenResult:
    """Return the figures of one load, of at least one answer."""
    records = [each.record for each in answers]
    answered = [each for each in answers if each.is_heard]
    wall_s = max(each.ended_s for each in records) - min(each.sent_s for each in records)
    # When it was sent, when its first text came, when its first audio came.
    times = [
        (each.record.sent_s, each.first_text_s, each.record.arrivals_s[0])
        for each in answered
        if each.first_text_s is not None
    ]
    halts_s = [underrun_s(each.record.arrivals_s, each.record.durations_s) for each in answered]
    outcomes = Counter(
        _SILENT if each.record.outcome == "ok" and not each.is_heard else each.record.outcome
        for each in answers
    )
    return SpokenResult(
        concurrency=load.concurrency,
        outcomes=dict(outcomes),
        wall_s=wall_s,
        audio_s_per_s=sum(each.audio_s for each in records) / wall_s,
        characters_per_s=sum(each.num_characters for each in records) / wall_s,
        first_text_ms=Percentiles.ms_of(text_s - sent_s for sent_s, text_s, _ in times),
        audio_after_text_ms=Percentiles.ms_of(audio_s - text_s for _, text_s, audio_s in times),
        first_audio_ms=Percentiles.ms_of(audio_s - sent_s for sent_s, _, audio_s in times),
        halt_ms=Percentiles.ms_of(halts_s),
        playback=PlaybackSummary.of(halts_s),
        client_cpu_share=client_cpu_share,
        errors=tuple(sorted({each.message for each in records if each.message}))[:5],
    )
