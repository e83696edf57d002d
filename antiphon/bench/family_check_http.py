"""The same over HTTP: a listener who plays what arrives, alone and among others."""

import asyncio
import time
from collections.abc import Sequence

from antiphon.bench.connection import SpeechClient
from antiphon.bench.family_check import FamilyCheckPlan, Finding, OnFinding
from antiphon.bench.playback import underrun_s
from antiphon.bench.record import Record
from antiphon.bench.serve import target_of

HALT_S = 0.001
"""Shorter halts are nobody's: a sample is 42 microseconds."""


async def check_over_http(plan: FamilyCheckPlan, url: str, on_finding: OnFinding) -> None:
    """Ask a server that has the model, first alone, then many at once."""
    fields: dict[str, object] = {"response_format": "pcm", "seed": 1}
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


def heard(title: str, records: Sequence[Record]) -> list[Finding]:
    """Judge what listeners heard who began to play with the first audio."""
    failed = [each for each in records if each.outcome != "ok" or not each.arrivals_s]
    if failed:
        told = failed[0].message or failed[0].outcome
        detail = f"{len(failed)} of {len(records)} failed: {told}"
        return [Finding(check=title, is_met=False, detail=detail)]
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
