"""A decoder with a device of its own: no more streams than its memory holds, however many come."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import numpy as np
import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Ended, FrameReady, Samples
from antiphon.families.cosyvoice3 import FAMILY, flow_context
from antiphon.families.cosyvoice3.config import load_config
from antiphon.families.cosyvoice3.decoder import CosyVoice3Decoder, load_decoder
from antiphon.families.cosyvoice3.flow_context import stream_bytes
from antiphon.nn.device import resolve_device
from antiphon.stages.base import StageItem, StageRequest
from antiphon.stages.build import build_stage
from tests.families.cosyvoice3.speech import TOKENS, audio_of, voice

DECODER = FAMILY.tasks["speech"].pipeline[1]
NUM_SLOTS, NUM_STREAMS, NUM_TOKENS = 2, 5, 34


async def tokens() -> AsyncGenerator[StageItem, None]:
    for each in TOKENS[:NUM_TOKENS]:
        yield FrameReady(np.array([each]))
    yield Ended("stop")


def request(number: int) -> StageRequest:
    conditioning = voice(4, seed=number)
    return StageRequest(
        f"{number}", Prompt(data=None, num_tokens=1, seed=0, conditioning=conditioning)
    )


async def test_streams_wait_for_a_slot_that_another_one_leaves(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = LoadContext(base, device="cpu", max_slots=8)
    size = stream_bytes(load_config(base).flow, resolve_device("cpu"))
    networks = 1.5 * sum(file.stat().st_size for file in base.glob("*.pt"))
    room = int((NUM_SLOTS * size + networks) / 0.8) + 9
    monkeypatch.setattr(flow_context, "_memory_bytes", lambda device: room)
    opened = []
    open_rows = CosyVoice3Decoder.open

    def watched(decoder: CosyVoice3Decoder, num_slots: int) -> object:
        opened.append(open_rows(decoder, num_slots))
        return opened[-1]

    monkeypatch.setattr(CosyVoice3Decoder, "open", watched)
    stage = build_stage([DECODER], context, lambda status: None)
    (rows,) = opened
    num_bytes = rows.flow.context.nbytes
    assert num_bytes == NUM_SLOTS * size

    async def heard(number: int) -> Samples:
        parts = []
        async with aclosing(stage.open(request(number), tokens())) as items:
            async for item in items:
                if isinstance(item, AudioChunk):
                    parts.append(item.samples)
                    if number == 0:  # its listener leaves
                        break
        return np.concatenate(parts)

    found = await asyncio.gather(*map(heard, range(NUM_STREAMS)))
    found.append(await heard(NUM_STREAMS - 1))
    await stage.close()
    assert rows.flow.context.nbytes == num_bytes
    decoder = load_decoder(context)
    for number in (1, NUM_STREAMS - 1):
        np.testing.assert_array_equal(
            found[number], audio_of(decoder, NUM_TOKENS, voice(4, seed=number))
        )
    np.testing.assert_array_equal(found[-1], found[NUM_STREAMS - 1])
    assert {len(each) for each in found[1:]} == {NUM_TOKENS * decoder.samples_per_frame}
