"""An engine counts what it does, and `/metrics` gives it under our names and vLLM's."""

import pickle

from prometheus_client import CollectorRegistry

from antiphon.contracts.prompt import Piece
from antiphon.engine.core import EngineCore
from antiphon.engine.plan import CacheShape
from antiphon.engine.request import EngineRequest
from antiphon.engine.scheduler import Scheduler
from antiphon.telemetry.engine_metrics import EngineCollector
from antiphon.telemetry.stage_status import EngineStats, Histogram
from tests.clock import Clock
from tests.engine.simulator import SimulatedDevice, Simulation, Traffic
from tests.engine.strict_device import StrictDevice, Words, prompt

CACHE = CacheShape(num_blocks=16, block_positions=4, max_positions=64)


def run(scheduler: Scheduler, device: StrictDevice, num_steps: int) -> None:
    for _ in range(num_steps):
        plan = scheduler.schedule()
        scheduler.update(plan, device.launch(plan).result())


def test_a_value_is_in_the_bucket_of_the_next_bound() -> None:
    histogram = Histogram((1, 2, 4))
    for value in (0.5, 1, 3, 9):
        histogram.observe(value)
    assert (histogram.counts, histogram.total) == ([2, 0, 1, 1], 13.5)


def test_the_scheduler_counts_requests_blocks_and_prefixes() -> None:
    scheduler, device = Scheduler(1, cache=CACHE), StrictDevice(1, CACHE)
    words = Words("first", tuple(range(10)), 3)
    scheduler.add(EngineRequest("first", prompt(words)))
    scheduler.add(EngineRequest("second", prompt(words)))
    run(scheduler, device, 1)
    stats = scheduler.snapshot()
    assert (stats.requests_running, stats.requests_waiting, stats.frames) == (1, 1, 1)
    assert (stats.kv_blocks, stats.kv_cache_usage) == (16, 3 / 16)
    assert (stats.prefix_cache_queries, stats.prefix_cache_hits) == (10, 0)
    run(scheduler, device, 10)
    later = scheduler.snapshot()
    assert (later.requests_running, later.requests_waiting, later.frames) == (0, 0, 6)
    assert (later.prefix_cache_queries, later.prefix_cache_hits) == (20, 8)
    assert (later.prefill_positions, later.kv_cache_usage) == (12, 0)
    assert stats.frames == 1, "a snapshot does not change"
    assert pickle.loads(pickle.dumps(later)) == later


def test_running_out_of_text_is_counted_when_more_arrives() -> None:
    scheduler, device = Scheduler(1), StrictDevice(1)
    scheduler.add(EngineRequest("a", prompt(Words("a", (), 9), allowed=2)))
    run(scheduler, device, 4)
    assert (scheduler.snapshot().requests_out_of_text, scheduler.stats.text_waits) == (1, 0)
    scheduler.append("a", Piece(data="more", num_frames_allowed=5))
    scheduler.append("a", Piece(data="all", num_frames_allowed=None))
    assert (scheduler.snapshot().requests_out_of_text, scheduler.stats.text_waits) == (0, 1)


def test_steps_are_counted_by_kind_and_preemptions_under_pressure() -> None:
    clock = Clock()
    device = SimulatedDevice(clock, 64, cache=CacheShape(100, 16, 1024))
    core = EngineCore(device, clock=clock)
    Simulation(core, clock, Traffic(3, rate_hz=60)).run()
    stats = core.scheduler.snapshot()
    assert stats.preemptions > 0
    num_steps = {kind: sum(each.counts) for kind, each in stats.step_seconds.items()}
    assert num_steps["decode"] > num_steps["mixed"] > 0
    assert sum(num_steps.values()) <= len(device.busy_s)
    assert sum(stats.step_rows["decode"].counts) == len(device.num_rows)
    assert stats.step_rows["decode"].total == sum(device.num_rows)
    total_s = sum(each.total for each in stats.step_seconds.values())
    assert 0.9 * sum(device.busy_s) < total_s < 1.3 * sum(device.busy_s)


def test_metrics_have_our_names_and_those_of_vllm() -> None:
    stats = EngineStats(requests_running=3, kv_cache_usage=0.25, preemptions=2)
    stats.record_step(0.004, decodes=True, prefills=False)
    stats.record_step(0.3, decodes=True, prefills=True)
    registry = CollectorRegistry()
    registry.register(EngineCollector(lambda: [("toy", "talker", stats)]))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    ours = {"model": "toy", "stage": "talker"}
    vllm = {"model_name": "toy", "engine": "talker"}
    assert value("antiphon_engine_requests_running", **ours) == 3
    assert value("vllm:num_requests_running", **vllm) == 3
    assert value("vllm:kv_cache_usage_perc", **vllm) == 0.25
    assert value("vllm:num_preemptions_total", **vllm) == 2
    assert value("antiphon_engine_preemptions_total", **ours) == 2
    seconds = "antiphon_engine_step_seconds"
    assert value(f"{seconds}_count", kind="decode", **ours) == 1
    assert value(f"{seconds}_bucket", kind="decode", le="0.003", **ours) == 0
    assert value(f"{seconds}_bucket", kind="decode", le="0.005", **ours) == 1
    assert value(f"{seconds}_sum", kind="mixed", **ours) == 0.3


def test_several_engines_are_counted_as_one() -> None:
    one, other = EngineStats(frames=3, kv_blocks=10), EngineStats(frames=4, kv_blocks=30)
    one.kv_cache_usage, other.kv_cache_usage = 1.0, 0.2
    for stats, duration_s in ((one, 0.004), (other, 0.02), (other, 2.0)):
        stats.record_step(duration_s, decodes=True, prefills=False)
    total = EngineStats.summed([one, other])
    assert (total.frames, total.kv_blocks) == (7, 40)
    assert total.kv_cache_usage == 16 / 40
    assert sum(total.step_seconds["decode"].counts) == 3
    assert total.step_seconds["decode"].total == 0.004 + 0.02 + 2.0
    assert sum(one.step_seconds["decode"].counts) == 1, "it is left as it was"
