"""How soon recordings of voices are encoded: ``python -m tests.bench.encode_speed``.

The encoder stage of a base checkpoint is given recordings of five seconds, one at a time and many
at once; no server, and nobody speaks meanwhile.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict

import numpy as np

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.families.kit.cloned_voices import CODES, SPEAKER, Recording
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.families.qwen3_tts import FAMILY
from antiphon.families.qwen3_tts.encoder import load_voice_encoder
from antiphon.stages.base import StageRequest
from antiphon.stages.build import EncoderStage
from antiphon_bench.summary import Percentiles
from tests.bench.peer import device_of, peer_flags, report, weights_of
from tests.families.whole_checkpoints import context_of

_RATE_HZ = 24_000
_REFERENCE_S = 5.0
_NUM_WARMING = 3


async def encoded_ms(stage: EncoderStage, seeds: Sequence[int]) -> list[float]:
    """Ask for one recording a seed, all at once; return when each was encoded."""

    async def one(seed: int) -> float:
        size = round(_REFERENCE_S * _RATE_HZ)
        samples = np.random.default_rng(seed).uniform(-0.3, 0.3, size).astype(np.float32)
        prompt = Prompt(data=Recording(samples, (SPEAKER, CODES)), num_tokens=1, seed=0)
        begun_s = time.perf_counter()
        async with aclosing(stage.open(StageRequest(f"{seed}", prompt), None)) as items:
            async for _ in items:
                pass
        return (time.perf_counter() - begun_s) * 1000

    return await asyncio.gather(*map(one, seeds))


async def measured(
    encoder: ClonedVoiceEncoder, rounds: int, at_once: int
) -> tuple[list[float], list[float]]:
    """Return times in milliseconds: of recordings one at a time, and of many at once."""
    spec = FAMILY.tasks["speech"].encoder
    assert spec is not None
    stage = EncoderStage(encoder, spec, LoadContext(), lambda status: None)
    alone: list[float] = []
    together: list[float] = []
    for number in range(_NUM_WARMING + rounds):
        times_ms = await encoded_ms(stage, [number]), await encoded_ms(stage, range(at_once))
        if number >= _NUM_WARMING:
            alone, together = [*alone, *times_ms[0]], [*together, *times_ms[1]]
    await stage.close()
    return alone, together


def main() -> None:
    """Measure, and write what was seen."""
    parser = peer_flags(__doc__.split("\n")[0], "1.7b")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--at-once", type=int, default=16, help="recordings of a round")
    given = parser.parse_args()
    context = context_of(weights_of(given, "qwen3_tts", "base"), device_of(given.device))
    begun_s = time.perf_counter()
    encoder = load_voice_encoder(context)
    loading_s = time.perf_counter() - begun_s
    alone, together = asyncio.run(measured(encoder, given.rounds, given.at_once))
    found = {"one": Percentiles.of(alone), f"{given.at_once} at once": Percentiles.of(together)}
    results = [
        {"recordings": name, "loading_s": loading_s, **asdict(each)}
        for name, each in found.items()
        if each is not None
    ]
    report(given, "antiphon", results)


if __name__ == "__main__":
    main()
