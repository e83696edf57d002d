"""An hour in a second: gapless below capacity, refused above it, no request starved."""

from antiphon.engine.core import EngineCore
from antiphon.engine.plan import CacheShape
from tests.engine.simulator import (
    DeviceModel,
    SimulatedDevice,
    Simulation,
    Traffic,
    VirtualClock,
    simulate,
)

CACHE = CacheShape(20_000, 16, 1024)
SLOW = DeviceModel(
    rows_s=((1, 20e-3), (64, 45e-3), (256, 120e-3), (1024, 500e-3)), prefill_s=5e-3
)  # 64 streams are all that it can keep gapless


def test_no_stream_has_a_gap_below_capacity() -> None:
    report = simulate(Traffic(30, rate_hz=60), 256, cache=CACHE)
    assert report.num_rejected == 0
    assert report.gapless == 1.0
    assert report.num_ended > 1700


def test_above_capacity_listeners_are_refused_rather_than_left_in_silence() -> None:
    report = simulate(Traffic(60, rate_hz=40), 256, model=SLOW, cache=CACHE)
    assert report.num_rejected > 1000
    assert report.gapless > 0.97
    assert report.longest_gap_s < SLOW.rows_s[0][1] * 3


def test_a_pool_that_is_too_small_delays_and_loses_no_request() -> None:
    traffic = Traffic(20, rate_hz=60)
    report = simulate(traffic, 256, cache=CacheShape(600, 16, 1024))
    roomy = simulate(traffic, 256, cache=CACHE)
    assert report.num_ended == roomy.num_ended
    assert report.gapless == 1.0
    assert report.first_audio_s[1] < 0.2


def test_offline_requests_are_done_and_do_not_disturb_live_ones() -> None:
    alone = simulate(Traffic(20, rate_hz=10), 16, cache=CACHE)
    report = simulate(Traffic(20, rate_hz=40, offline_share=0.75), 16, cache=CACHE)
    assert report.num_rejected == 0
    assert report.gapless == 1.0
    assert report.num_ended > 700
    assert report.first_audio_s[1] < 3 * alone.first_audio_s[1]


def test_a_request_that_arrives_during_a_step_is_in_the_next_one() -> None:
    """Late launch: a request waits for the end of a step, and not for one more."""
    clock = VirtualClock()
    model = DeviceModel(rows_s=((1, 50e-3), (1024, 50e-3)))
    device = SimulatedDevice(clock, 64, model=model, cache=CACHE)
    core = EngineCore(device, clock=clock)
    simulation = Simulation(core, clock, Traffic(60, rate_hz=4))
    simulation.run()
    first_s = sorted(each.first_audio_s or 0.0 for each in simulation.ended)
    step_s = 50e-3 + 3e-3 + 4e-3
    # The rest of a step, then two steps: in the slow regime a first chunk has two frames.
    assert first_s[len(first_s) // 2] < 2.75 * step_s
    idle_s = clock.now_s - sum(device.busy_s)
    assert idle_s < 0.2 * clock.now_s, "the device ran dry"
