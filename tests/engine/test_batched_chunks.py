"""Batches of chunks: full ones, unless a stream needs audio; first audio comes batch by batch."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.contracts.engine_limits import PlaybackPolicy
from antiphon.engine.batched_chunks import BatchedChunks
from antiphon.engine.core import EngineCore
from antiphon.engine.cost_model import CostModel
from antiphon.engine.plan import CodecShape, StepPlan
from antiphon.engine.request import EngineRequest
from tests.clock import Clock
from tests.engine.device_model import DeviceModel
from tests.engine.simulator import SimulatedDevice, SimulatedStep, Simulation, Traffic
from tests.engine.test_chunk_planner import NOW_S, requests

BATCH = 16
CODEC = CodecShape(1, 25, (25,), 6, 25, batch_chunks=BATCH)
POLICY = PlaybackPolicy()
PLANNER = BatchedChunks(CODEC, POLICY, CostModel())


@given(requests.filter(bool), st.integers(0, 100))
def test_a_batch_waits_for_no_stream_that_needs_audio(
    due: list[EngineRequest], num_frames: int
) -> None:
    chosen = PLANNER.select(due, [], num_frames, NOW_S)
    firsts = [each for each in due if PLANNER.is_first_audio_due(each)]
    urgent = [each for each in due if each.clock.deadline_s < NOW_S + POLICY.comfort_s]
    assert len(chosen) <= BATCH
    assert len(chosen) >= min(BATCH, len(urgent) or len(firsts))
    assert all(each in chosen for each in urgent) or all(each in urgent for each in chosen)
    chosen_firsts = [each for each in chosen if each in firsts]
    assert chosen_firsts == firsts[: len(chosen_firsts)], "not in order of arrival"
    if not firsts and not urgent:
        assert len(chosen) == (min(len(due), BATCH) if len(due) >= min(BATCH, num_frames) else 0)


class Device(SimulatedDevice):
    """Decodes groups of 25 frames, for which a pass takes 3 ms, and 4 ms more for each row."""

    def __init__(self, clock: Clock, num_slots: int, batch_chunks: int) -> None:
        model = DeviceModel(
            rows_s=((1, 1e-3), (64, 1.2e-3), (1024, 20e-3)),
            prefill_s=2e-4,
            chunk_s=3e-3,
            chunk_frame_s=4e-3 / 25,
            chunk_sizes=(25,),
        )
        super().__init__(clock, num_slots, model=model)
        self.codec = CodecShape(2, 50, (25,), 6, 25, batch_chunks=batch_chunks)
        self.batches: list[int] = []

    def launch(self, plan: StepPlan) -> SimulatedStep:
        self.batches += [len(plan.codec_chunks)] * bool(plan.codec_chunks)
        return super().launch(plan)


def heard_by(traffic: Traffic, batch_chunks: int) -> tuple[list[float], float, Device]:
    """Return when first audio came, how long all took, and the device."""
    clock = Clock()
    device = Device(clock, 64, batch_chunks)
    simulation = Simulation(EngineCore(device, clock=clock), clock, traffic)
    simulation.run()
    assert not simulation.num_rejected
    assert max(each.longest_gap_s for each in simulation.ended) == 0.0
    first_s = [each.first_audio_s or inf for each in simulation.ended]
    return first_s, clock.now_s, device


def test_streams_that_begin_together_are_heard_batch_by_batch() -> None:
    traffic = Traffic(1, num_clients=64, num_requests=64, ramp_s=0.0, spread=0.0)
    before_s, longer_s, _ = heard_by(traffic, 1)
    first_s, took_s, device = heard_by(traffic, BATCH)
    assert np.median(first_s) < 0.8 * np.median(before_s)
    assert max(first_s) < 1.1 * max(before_s)
    assert took_s < 0.95 * longer_s
    assert {*device.batches} == {BATCH}


@pytest.mark.parametrize("num_clients", [1, 8, 64])
def test_streams_that_begin_one_by_one_share_batches(num_clients: int) -> None:
    traffic = Traffic(
        60, num_clients=num_clients, num_requests=4 * num_clients, ramp_s=1.0, median_frames=150
    )
    before_s, longer_s, unbatched = heard_by(traffic, 1)
    first_s, took_s, device = heard_by(traffic, BATCH)
    assert np.median(first_s) <= np.median(before_s)
    assert took_s <= longer_s
    assert len(device.batches) <= len(unbatched.batches)
    if num_clients == 64:
        assert np.mean(device.batches) > 2 * np.mean(unbatched.batches)
