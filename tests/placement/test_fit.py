"""What a card holds, estimated: nothing is held twice, and what takes more takes longer."""

from dataclasses import replace

import pytest

from antiphon.config import ModelSettings
from antiphon.contracts.inspection import Footprint
from antiphon.engine.model_runner.kv_cache import KVBudget
from antiphon.engine.runner import BLOCK_POSITIONS
from antiphon.errors import ModelLoadError, SettingsError
from antiphon.nn.cuda.memory_plan import CONTEXT_BYTES
from antiphon.placement.cards import CARDS, Card, card_of
from antiphon.placement.fit import MAX_LOAD, fit

MODEL = Footprint(
    weight_bytes=4 * 2**30,
    read_bytes=5_300_000_000,
    stream_flop=5_500_000_000,
    decoder_flop=5_000_000_000,
    position_bytes=114_688,
    num_launches=590,
    frames_per_s=12.5,
    prompt_positions=40,
    measured_ms={"H200": {1: 2.7}},
)
STREAMS = (1, 8, 64)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_memory_is_divided_without_a_rest(card: Card) -> None:
    found = fit(MODEL, card, 30.0, STREAMS)
    whole = found.weight_gib + found.runtime_gib + found.cache_gib
    assert whole == pytest.approx(card.memory_gib)
    assert found.num_streams * found.stream_gib <= max(0.0, found.cache_gib)
    assert (found.num_streams + 1) * found.stream_gib > found.cache_gib
    assert 0 <= found.num_gapless <= found.num_streams


def test_memory_is_shared_out_as_a_server_does_it() -> None:
    card, num_positions = card_of("RTX 4090"), MODEL.prompt_positions + 375
    found = fit(MODEL, card, 30.0, STREAMS, utilization=0.8)
    num_free = int(card.memory_gib * 2**30) - CONTEXT_BYTES - MODEL.weight_bytes
    blocks = -(-num_positions // BLOCK_POSITIONS)
    for num_slots, is_enough in ((found.num_streams, True), (found.num_streams + 1, False)):
        budget = KVBudget(num_slots, num_positions, utilization=0.8)
        left = budget.plan(num_free, int(card.memory_gib * 2**30)).num_left(num_slots)
        wanted = num_slots * blocks * BLOCK_POSITIONS * MODEL.position_bytes
        assert (wanted <= left) == is_enough
    assert fit(MODEL, card, 30.0, STREAMS, utilization=0.9).num_streams > found.num_streams


@pytest.mark.parametrize("memory_gib", [4.5, 4.9, 5.1, 5.2, 5.5, 6, 8, 12, 16, 24])
def test_a_card_holds_a_stream_if_a_server_starts_on_it(memory_gib: float) -> None:
    usual = replace(MODEL, prompt_positions=384 - 375)
    num_streams = fit(usual, Card("small", memory_gib, 300.0), 30.0, STREAMS).num_streams
    num_total = int(memory_gib * 2**30)
    budget = KVBudget(1024, 4096, utilization=0.9)
    plan = budget.plan(num_total - CONTEXT_BYTES - MODEL.weight_bytes, num_total)
    if not num_streams:
        with pytest.raises(ModelLoadError):
            budget.fitted(plan, MODEL.position_bytes, is_fixed=False)
        return
    num_slots = budget.fitted(plan, MODEL.position_bytes, is_fixed=False).num_slots
    assert num_slots <= num_streams < 2 * num_slots + 1


def test_a_server_is_thought_to_have_its_usual_share() -> None:
    card, usual = card_of("L4"), ModelSettings().gpu_memory_utilization
    assert fit(MODEL, card, 30.0, STREAMS) == fit(MODEL, card, 30.0, STREAMS, utilization=usual)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_as_many_are_gapless_as_keep_up(card: Card) -> None:
    found = fit(MODEL, card, 30.0, STREAMS)
    at_most = (max(1, found.num_gapless), found.num_gapless + 1)
    last, next_one = fit(MODEL, card, 30.0, at_most).speeds
    assert last.load <= MAX_LOAD or found.num_gapless == 0
    assert next_one.load > MAX_LOAD or found.num_gapless == found.num_streams


def test_more_of_anything_takes_longer() -> None:
    card = card_of("L4")
    times = [speed.frame_ms for speed in fit(MODEL, card, 30.0, (1, 2, 8, 64, 256)).speeds]
    assert times == sorted(set(times))
    short, long = (fit(MODEL, card, seconds, (8,)) for seconds in (10.0, 600.0))
    assert short.speeds[0].frame_ms < long.speeds[0].frame_ms
    assert short.num_streams > long.num_streams
    slow = replace(card, bandwidth_gbs=card.bandwidth_gbs / 2)
    assert fit(MODEL, slow, 30.0, (1,)).speeds[0].frame_ms > times[0]


def test_a_card_that_is_too_small_holds_nothing() -> None:
    found = fit(MODEL, Card("small", 5.0, 300.0), 30.0, STREAMS)
    assert found.cache_gib < 0
    assert (found.num_streams, found.num_gapless) == (0, 0)


def test_what_was_measured_stands_beside_the_estimate() -> None:
    measured = {
        card.name: [speed.measured_ms for speed in fit(MODEL, card, 30.0, STREAMS).speeds]
        for card in CARDS
    }
    assert measured.pop("H200") == [2.7, None, None]
    assert all(each == [None] * 3 for each in measured.values())


@pytest.mark.parametrize("name", ["RTX 4090", "rtx4090", "NVIDIA GeForce RTX 4090", "rtx-4090"])
def test_names_of_cards(name: str) -> None:
    assert card_of(name).name == "RTX 4090"


def test_an_unknown_card_is_told_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"RTX 9999.*H200.*RTX 5090.*--bandwidth-gbs"):
        card_of("RTX 9999")


def test_a_program_that_stays_is_counted_where_it_runs() -> None:
    resident = replace(MODEL, num_launches=500, num_resident=400, resident_streams=8)
    launched = replace(resident, num_resident=0)

    def times_ms(card: str, footprint: Footprint) -> list[float]:
        return [each.frame_ms for each in fit(footprint, card_of(card), 8.0, (1, 8, 9)).speeds]

    for card, is_faster in (("H200", True), ("H100 PCIe", False), ("RTX 4090", False)):
        one, eight, nine = zip(times_ms(card, resident), times_ms(card, launched), strict=True)
        assert (one[0] < one[1]) == is_faster
        assert (eight[0] < eight[1]) == is_faster
        assert nine[0] == nine[1]
