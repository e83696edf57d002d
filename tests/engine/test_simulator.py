"""Minutes in a second: gapless below capacity, refused above it, no request starved."""

import heapq
from dataclasses import replace
from math import exp, inf

import pytest

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Sampling
from antiphon.engine.core import EngineCore
from antiphon.engine.plan import CacheShape
from antiphon.engine.request import EngineRequest
from antiphon.engine.scheduler import SchedulerLimits
from antiphon.errors import OverloadedError
from tests.clock import Clock
from tests.engine.device_model import DeviceModel
from tests.engine.simulator import SimulatedDevice, Simulation, Traffic, simulate
from tests.engine.turns import read_frames

CACHE = CacheShape(20_000, 16, 1024)
MEAN_FRAMES = 75 * exp(0.5**2 / 2)  # of the requests of a `Traffic`
PATIENT = SchedulerLimits(admission=AdmissionLimits(max_waiting=10_000, max_wait_s=inf))
SLOW = DeviceModel(
    rows_s=((1, 20e-3), (64, 45e-3), (256, 120e-3), (1024, 500e-3)), prefill_s=5e-3
)  # 64 streams are all that it can keep gapless


def test_no_stream_has_a_gap_below_capacity() -> None:
    report = simulate(Traffic(12, rate_hz=60), 256, cache=CACHE)
    assert report.num_rejected == 0
    assert report.gapless == 1.0
    assert report.num_ended > 650


def test_above_capacity_listeners_are_refused_rather_than_left_in_silence() -> None:
    report = simulate(Traffic(30, rate_hz=40), 256, model=SLOW, cache=CACHE)
    assert report.num_rejected > 400
    assert report.gapless > 0.97
    assert report.longest_gap_s < SLOW.rows_s[0][1] * 3


def test_over_capacity_those_who_are_admitted_hear_their_first_sound_soon() -> None:
    capacity = simulate(Traffic(5, num_clients=128), 128, cache=CACHE)
    rate_hz = capacity.mean_rows / MEAN_FRAMES / capacity.mean_step_s
    traffic = Traffic(12, rate_hz=0.85 * rate_hz, warm_up_s=5, seed=1)
    below = simulate(traffic, 128, cache=CACHE)
    assert below.num_rejected == 0
    over = simulate(replace(traffic, rate_hz=1.5 * rate_hz), 128, cache=CACHE)
    assert over.gapless == below.gapless == 1.0
    assert over.num_rejected > 0.2 * over.num_ended
    assert over.audio_s_per_s > 0.95 * capacity.audio_s_per_s
    assert over.first_audio_s[2] < 3 * below.first_audio_s[2]


def test_those_of_a_crowd_who_are_refused_find_room_when_they_were_told() -> None:
    clock = Clock()
    core = EngineCore(SimulatedDevice(clock, 32, model=SLOW, cache=CACHE), clock=clock)
    Simulation(core, clock, Traffic(20, rate_hz=2, median_frames=200)).run()  # learns lengths
    begun_s = clock.now_s
    coming = [(begun_s + 0.02 * number, number) for number in range(96)]
    told_s: dict[int, float] = {}
    admitted_s: dict[int, float] = {}
    while coming:
        at_s, number = heapq.heappop(coming)
        advance(core, clock, at_s)
        prompt = Prompt(
            data=200,
            num_tokens=50,
            seed=0,
            sampling=Sampling(max_frames=600),
            num_positions=50,
        )
        try:
            core.scheduler.add(EngineRequest(str(number), prompt))
            admitted_s[number] = at_s - begun_s - 0.02 * number
        except OverloadedError as error:
            told_s.setdefault(number, error.retry_after_s or 0.0)
            heapq.heappush(coming, (at_s + (error.retry_after_s or 1.0), number))
    assert len(told_s) > 10
    assert all(admitted_s[number] <= 2 * each for number, each in told_s.items())
    assert max(told_s.values()) <= 2 * max(admitted_s.values())


def advance(core: EngineCore, clock: Clock, until_s: float) -> None:
    """Run steps until a time; every chunk is read at once."""
    while (wait_s := core.wait_s()) is not None and clock.now_s + wait_s <= until_s:
        clock.now_s += wait_s
        for name, event in core.step():
            if isinstance(event, AudioChunk):
                read_frames(core.scheduler, name, event.num_frames)
    clock.now_s = max(clock.now_s, until_s)


def test_a_pool_that_is_too_small_delays_and_loses_no_request() -> None:
    traffic = Traffic(10, rate_hz=60)
    report = simulate(traffic, 256, cache=CacheShape(600, 16, 1024))
    roomy = simulate(traffic, 256, cache=CACHE)
    assert report.num_ended == roomy.num_ended
    assert report.gapless == 1.0
    assert report.first_audio_s[1] < 0.2


def test_streams_that_are_preempted_with_all_frames_waiting_for_the_codec_go_on() -> None:
    """Many equal ones: whoever has most audio in hand has as many frames as are kept."""
    traffic = Traffic(8, num_clients=128, median_frames=500, spread=0.0, num_positions=(60, 60))
    report = simulate(traffic, 128, cache=CacheShape(2560, 16, 1024), limits=PATIENT)
    assert report.recomputed > 0, "nobody was preempted"
    assert report.num_ended >= 128


def test_offline_requests_are_done_and_do_not_disturb_live_ones() -> None:
    alone = simulate(Traffic(10, rate_hz=10), 16, cache=CACHE)
    report = simulate(Traffic(10, rate_hz=40, offline_share=0.75), 16, cache=CACHE)
    assert report.num_rejected == 0
    assert report.gapless == 1.0
    assert report.num_ended > 350
    assert report.first_audio_s[1] < 3 * alone.first_audio_s[1]


def test_a_request_that_arrives_during_a_step_is_in_the_next_one() -> None:
    """Late launch: a request waits for the end of a step, and not for one more."""
    clock = Clock()
    model = DeviceModel(rows_s=((1, 50e-3), (1024, 50e-3)))
    device = SimulatedDevice(clock, 64, model=model, cache=CACHE)
    core = EngineCore(device, clock=clock)
    simulation = Simulation(core, clock, Traffic(30, rate_hz=4))
    simulation.run()
    first_s = sorted(each.first_audio_s or 0.0 for each in simulation.ended)
    step_s = 50e-3 + 3e-3 + 4e-3
    # The rest of a step, then two steps: in the slow regime a first chunk has two frames.
    assert first_s[len(first_s) // 2] < 2.75 * step_s
    idle_s = clock.now_s - sum(device.busy_s)
    assert idle_s < 0.2 * clock.now_s, "the device ran dry"


H200 = DeviceModel(
    rows_s=((1, 2.5e-3), (8, 3.85e-3), (64, 4.3e-3), (256, 8.0e-3), (1024, 22.8e-3)),
    prefill_s=32 * 6e-6,
    prefill_positions=32,
    pass_s=1.5e-3,
    chunk_s=0.6e-3,
    chunk_frame_s=14e-6,
    chunk_sizes=(1, 4, 16),
    host_s=0.3e-3,
)


@pytest.mark.parametrize(
    "num_clients",
    [64, pytest.param(256, marks=pytest.mark.slow)],  # 256: more of the same
)
def test_prompts_in_the_pass_of_the_rows_are_worth_their_own_pass(num_clients: int) -> None:
    """They cost a tenth of what a card speaks, and a tenth of the time to its first sound."""
    traffic = Traffic(
        5, num_clients=num_clients, median_frames=100, max_frames=140, num_positions=(20, 50)
    )
    apart, mixed = (
        simulate(traffic, num_clients, model=model, cache=CACHE)
        for model in (H200, replace(H200, num_free_positions=128))
    )
    assert apart.gapless == mixed.gapless == 1.0
    assert mixed.audio_s_per_s > 1.04 * apart.audio_s_per_s
    for ours, theirs in zip(mixed.first_audio_s, apart.first_audio_s, strict=True):
        assert ours < 0.97 * theirs


def test_a_burst_of_long_prompts_is_computed_as_fast_as_listeners_can_wait() -> None:
    traffic = Traffic(2, num_clients=64, num_positions=(300, 900))
    by_time, by_number = (
        simulate(
            traffic,
            64,
            model=replace(H200, num_free_positions=128),
            cache=CACHE,
            limits=limits,
        )
        for limits in (SchedulerLimits(), SchedulerLimits(max_prefill_positions=512))
    )
    assert by_time.gapless == by_number.gapless == 1.0
    assert by_time.first_audio_s[1] < 0.6 * by_number.first_audio_s[1]
