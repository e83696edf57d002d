"""A decoder whose sound comes late: no listener hears a gap after the first of it."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Ended, Samples
from antiphon.engine.core import EngineCore
from antiphon.engine.plan import CodecChunk, CodecShape, StepPlan
from antiphon.engine.request import EngineRequest
from antiphon.engine.scheduler import SchedulerLimits
from tests.clock import Clock
from tests.engine.device_model import DeviceModel
from tests.engine.simulator import Listener, SimulatedDevice, SimulatedStep, Simulation, Traffic
from tests.engine.turns import read_frames

GROUP_SAMPLES, RATE_HZ = 64, 400  # 160 ms
PASS_GROUPS, LATE_GROUPS = 4, 24


@dataclass(slots=True)
class Row:
    """A stream: groups with sound, those past its end counted too, and what was heard of them."""

    num_groups: int = 0
    num_ticks: int = 0
    num_heard: int = 0


@dataclass(slots=True)
class Elastic:
    """What a simulated decoder does.

    Attributes:
        delay_samples: by which sound is late.
        num_text: frames of text before as many of sound, again and again; 0: there is no text.
        num_before: frames of text before all that.
        rows: of the slots.
    """

    delay_samples: int
    num_text: int = 0
    num_before: int = 0
    rows: dict[int, Row] = field(default_factory=dict)

    def is_sound(self, number: int) -> bool:
        if (number := number - self.num_before) < 0:
            return False
        return not self.num_text or number % (2 * self.num_text) >= self.num_text


class ElasticDevice(SimulatedDevice):
    """A device whose decoder holds sound back, as one that looks far ahead."""

    def __init__(self, clock: Clock, num_slots: int, model: DeviceModel, elastic: Elastic) -> None:
        super().__init__(clock, num_slots, model=model)
        self.elastic = elastic
        self.codec = CodecShape(
            GROUP_SAMPLES,
            RATE_HZ,
            model.chunk_sizes,
            group_frames=PASS_GROUPS,
            late_frames=LATE_GROUPS,
        )

    def launch(self, plan: StepPlan) -> SimulatedStep:
        for each in plan.starts:
            self.elastic.rows[each.slot] = Row()
        return super().launch(plan)

    def audio_of(self, chunk: CodecChunk) -> Samples:
        elastic, stop = self.elastic, chunk.start + chunk.num_frames
        row, end = elastic.rows[chunk.slot], stop if chunk.end is None else chunk.end
        num_groups = sum(elastic.is_sound(each) for each in range(chunk.start, min(stop, end)))
        row.num_groups += num_groups
        row.num_ticks += num_groups + stop - min(stop, max(chunk.start, end))
        num_certain = row.num_ticks * GROUP_SAMPLES - elastic.delay_samples
        num_certain = max(0, min(num_certain, row.num_groups * GROUP_SAMPLES))
        made = np.arange(row.num_heard, num_certain, dtype=np.float32)
        row.num_heard = num_certain
        return made


def listeners(traffic: Traffic, elastic: Elastic, model: DeviceModel) -> list[Listener]:
    """Serve the traffic; return what its listeners heard."""
    clock = Clock()
    core = EngineCore(ElasticDevice(clock, traffic.num_clients, model, elastic), clock=clock)
    simulation = Simulation(core, clock, traffic)
    simulation.run()
    core.scheduler.check_integrity()
    return simulation.ended


def device(step_s: float, crowd_step_s: float) -> DeviceModel:
    """Return a device on which a decoder's pass over 64 chunks takes more than half of a step."""
    return DeviceModel(
        rows_s=((1, step_s), (64, crowd_step_s)),
        chunk_s=step_s / 4,
        chunk_frame_s=crowd_step_s * 0.6 / 256,
        chunk_sizes=(PASS_GROUPS,),
    )


FAST, SLOW = device(9e-3, 25e-3), device(20e-3, 50e-3)


@pytest.mark.parametrize(
    "num_streams", [1, 8, pytest.param(64, marks=pytest.mark.slow)]
)  # eight share steps as well
@pytest.mark.parametrize("model", [FAST, SLOW], ids=["fast", "slow"])
@pytest.mark.parametrize(("num_text", "num_before"), [(0, 0), (5, 0), (5, 17)])
@pytest.mark.parametrize("num_first", [1, 10, 64, 200, 256])  # samples of the first sound
def test_no_gap_follows_a_first_sound(
    num_first: int, num_text: int, num_before: int, model: DeviceModel, num_streams: int
) -> None:
    elastic = Elastic(24 * GROUP_SAMPLES - num_first, num_text, num_before)
    for num_frames in (16, 60):  # shorter than what it takes until there is sound, and longer
        traffic = Traffic(
            duration_s=100,
            num_clients=num_streams,
            num_requests=2 * num_streams,
            median_frames=num_before + num_frames * (2 if num_text else 1),
            spread=0.3,
        )
        heard = listeners(traffic, elastic, model)
        assert len(heard) == 2 * num_streams
        num_heard = sum(each.first_audio_s is not None for each in heard)
        assert num_heard > 0.9 * len(heard)  # a few may be text alone
        assert max(each.longest_gap_s for each in heard) <= 1e-9


def test_who_has_heard_nothing_is_served_before_those_who_have_audio_left() -> None:
    """Decoding many frames before the first sound is no reason to come last."""
    traffic = Traffic(100, num_clients=64, num_requests=128, median_frames=16, spread=0.3)
    heard = listeners(traffic, Elastic(24 * GROUP_SAMPLES - 200), FAST)
    firsts_s = sorted(each.first_audio_s or 0.0 for each in heard)
    assert firsts_s[-1] < 1.5 * firsts_s[64]


@pytest.mark.parametrize(
    ("num_first", "expected"),
    [(256, 256), (200, 200), (60, 60), (1, 257)],  # more than the next chunk takes is not held
)
def test_a_first_sound_is_held_no_longer_than_it_must(num_first: int, expected: int) -> None:
    chunks = chunks_of(Elastic(24 * GROUP_SAMPLES - num_first), 60)
    assert next(len(each.samples) for each in chunks if len(each.samples)) == expected


@pytest.mark.parametrize("sizes", [(4,), (4, 8, 16)])
def test_chunks_do_not_grow_before_there_is_sound(sizes: tuple[int, ...]) -> None:
    chunks = chunks_of(Elastic(24 * GROUP_SAMPLES - 200), 60, sizes=sizes)
    silent = [each for each in chunks if not len(each.samples)]
    assert [each.num_frames for each in silent] == [PASS_GROUPS] * 5
    assert max(each.num_frames for each in chunks[:-1]) == sizes[-1]


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize("step_s", [9e-3, 2.0])  # that a step is believed to take
@pytest.mark.parametrize("num_text", [0, 5, 40])
@pytest.mark.parametrize("num_frames", [1, 2, 16, 23, 24, 25, 100])
def test_what_was_held_is_heard_once_and_in_its_place(
    num_frames: int, num_text: int, step_s: float, is_live: bool
) -> None:
    elastic = Elastic(24 * GROUP_SAMPLES - 1, num_text)
    chunks = chunks_of(elastic, num_frames, step_s=step_s, is_live=is_live)
    num_groups = sum(map(elastic.is_sound, range(num_frames)))
    samples = [sample for each in chunks for sample in each.samples.tolist()]
    assert samples == [*range(num_groups * GROUP_SAMPLES)]
    assert sum(each.num_frames for each in chunks) == num_frames


def test_nothing_is_held_that_its_reader_must_have_for_more_to_be_made() -> None:
    """Frames are handed over with their sound, and a reader may be a few behind at most."""
    limits = SchedulerLimits(max_unread_frames=24)
    chunks = chunks_of(Elastic(24 * GROUP_SAMPLES - 1, num_text=24), 200, limits=limits)
    assert sum(each.num_frames for each in chunks) == 200


def chunks_of(
    elastic: Elastic,
    num_frames: int,
    *,
    step_s: float = 9e-3,
    sizes: tuple[int, ...] = (PASS_GROUPS,),
    is_live: bool = True,
    limits: SchedulerLimits | None = None,
) -> list[AudioChunk]:
    """Return the chunks of a request that is alone, each of which is read at once."""
    clock = Clock()
    model = replace(FAST, chunk_sizes=sizes)
    core = EngineCore(ElasticDevice(clock, 1, model, elastic), limits=limits, clock=clock)
    core.scheduler.costs.mean_step_s = step_s
    prompt = Prompt(data=num_frames, num_tokens=1, seed=0, num_positions=1)
    core.scheduler.add(EngineRequest("r", prompt, is_live))
    chunks: list[AudioChunk] = []
    for _ in range(10_000):
        for name, event in core.step():
            if isinstance(event, Ended):
                return chunks
            if isinstance(event, AudioChunk):
                chunks.append(event)
                read_frames(core.scheduler, name, event.num_frames)
    raise AssertionError("it is stuck")
