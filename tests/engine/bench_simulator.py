"""Holds the simulator against what was measured: ``python -m tests.engine.bench_simulator``.

The device is that of docs/performance.md: times of rows, prompts and codec passes, put together.
Two numbers of the host are fitted to these loads; see `FITTED`.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from antiphon.engine.plan import CacheShape
from tests.engine.device_model import HostModel
from tests.engine.scale import CHUNK_S, H200, REQUEST_S
from tests.engine.simulator import Report, Traffic, simulate

KEY_VALUE_BYTES = 28 * 2 * 8 * 128 * 2
"""Of a position: keys and values of eight heads in all layers of the 1.7B model, in bfloat16."""
COPIED_BYTES_S = 4.24e12
"""By the H200, see docs/performance/step-1.7b-inner-codes.json."""
DEVICE = replace(
    H200,
    # Up to 8 rows, inner codes are one launch: 1.10 and 1.30 ms instead of 1.41 and 2.15.
    rows_s=((1, 2.2e-3), (8, 2.65e-3), (16, 3.8e-3), (64, 4.3e-3), (256, 8.0e-3)),
    num_free_positions=128,
    prompts_s=0.43e-3,
    position_s=KEY_VALUE_BYTES / COPIED_BYTES_S,
)
ENGINE_HOST = HostModel(request_s=0.095e-3, latency_s=2.9e-3)
"""Of ``antiphon bench engine``."""
SERVER_HOST = replace(ENGINE_HOST, request_s=REQUEST_S, chunk_s=CHUNK_S)
"""Of a server of one process; its times were measured on slower cores, see docs/scale.md."""
FITTED = "0.095 ms a request and 2.9 ms until its first chunk, to the engine's five first sounds"
MAX_DEVIATION = 0.1

_PROMPT_POSITIONS = (8, 8)  # of a built-in voice: its text stands beside the frames
_ALL_MEMORY = CacheShape(50_000, 16, 2048)  # what an H200 has left for keys and values


@dataclass(frozen=True, slots=True)
class Load:
    """Requests, and what came of them.

    Attributes:
        name: for people.
        traffic: the requests.
        host: of the process.
        frame_ms: that was measured, in which every stream makes a frame; ``None``: it was not.
        audio_s_per_s: likewise, of all streams.
        first_ms: likewise, the median of the time to first audio.
    """

    name: str
    traffic: Traffic
    host: HostModel
    frame_ms: float | None = None
    audio_s_per_s: float | None = None
    first_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A figure, measured and simulated; ``measured`` is ``None`` where it is a prediction."""

    load: str
    figure: str
    simulated: float
    measured: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.measured is None else self.simulated / self.measured

    @property
    def agrees(self) -> bool:
        """Whether it is as measured, as far as that is known."""
        return self.ratio is None or abs(self.ratio - 1) <= MAX_DEVIATION


def streams(number: int, num_frames: int) -> Traffic:
    """Return so many streams of the same length, which begin at once."""
    return Traffic(
        0.0,
        num_clients=number,
        ramp_s=0.0,
        num_frames=(num_frames, num_frames),
        num_positions=_PROMPT_POSITIONS,
    )


def clients(number: int, num_requests: int, ramp_s: float = 0.0) -> Traffic:
    """Return clients that each send a request of 60 to 140 frames when their last has ended."""
    return Traffic(
        600.0,
        num_clients=number,
        ramp_s=ramp_s,
        num_requests=num_requests,
        num_frames=(60, 140),
        num_positions=_PROMPT_POSITIONS,
    )


def arrivals(rate_hz: float, duration_s: float) -> Traffic:
    """Return requests of 60 to 140 frames at random times."""
    return Traffic(
        duration_s, rate_hz=rate_hz, num_frames=(60, 140), num_positions=_PROMPT_POSITIONS
    )


# "Inner codes in one launch" and "Measured again" of docs/history/performance-2026-11.md.
MEASURED = (
    Load("engine, 1 stream", streams(1, 100), ENGINE_HOST, 2.37, 33.8, 6.8),
    Load("engine, 8 streams", streams(8, 100), ENGINE_HOST, 2.96, 216, 8.3),
    Load("engine, 64 streams", streams(64, 100), ENGINE_HOST, 5.80, 883, 21.4),
    Load("engine, 256 streams", streams(256, 100), ENGINE_HOST, 12.77, 1604, 58.0),
    Load("engine, 64 streams of 600 frames", streams(64, 600), ENGINE_HOST, 6.42, 798),
    Load("engine, 256 streams of 600 frames", streams(256, 600), ENGINE_HOST, 13.69, 1496, 52.3),
    Load("HTTP, 1 client", clients(1, 50), SERVER_HOST, None, 33.4),
    Load("HTTP, 64 clients, begun in 2 s", clients(64, 644, 2.0), SERVER_HOST, None, 782),
    Load("HTTP, 256 clients, begun in 2 s", clients(256, 1563, 2.0), SERVER_HOST, None, 1369),
    Load("front ends, 64 clients, begun in 2 s", clients(64, 672, 2.0), ENGINE_HOST, None, 805),
    Load("front ends, 256 clients, begun in 2 s", clients(256, 1578, 2.0), ENGINE_HOST, None, 1580),
    Load("front ends, 100 requests/s", arrivals(100.0, 40.0), ENGINE_HOST, None, 806),
)
PREDICTED = (
    Load("HTTP, 8 clients, begun in 1 s", clients(8, 128, 1.0), SERVER_HOST),
    Load("HTTP, 128 clients, begun in 2 s", clients(128, 1024, 2.0), SERVER_HOST),
    Load("HTTP, 130 requests/s", arrivals(130.0, 60.0), SERVER_HOST),
)


def simulated(load: Load) -> Report:
    return simulate(load.traffic, 256, model=DEVICE, cache=_ALL_MEMORY, host=load.host)


def rows_of(load: Load) -> list[Row]:
    """Return the figures of a load that were measured, or all that are predicted."""
    report, number = simulated(load), load.traffic.num_clients
    p50_ms, _, p99_ms = (1000 * each for each in report.first_audio_s)
    frame_ms = 80.0 * number / report.busy_audio_s_per_s
    compared = (
        Row(load.name, "ms a frame", frame_ms, load.frame_ms),
        Row(load.name, "audio-s / s", report.busy_audio_s_per_s, load.audio_s_per_s),
        Row(load.name, "first p50 ms", p50_ms, load.first_ms),
    )
    if measured := [each for each in compared if each.measured is not None]:
        return measured
    return [
        *(compared[:1] if load.host is ENGINE_HOST else ()),
        *compared[1:],
        Row(load.name, "first p99 ms", p99_ms),
        Row(load.name, "gapless %", 100 * report.gapless),
        Row(load.name, "refused", report.num_rejected),
    ]


def main(loads: Sequence[Load] = (*MEASURED, *PREDICTED)) -> None:
    lines = [
        "| load | figure | measured | simulated | ratio |",
        "| --- | --- | --- | --- | --- |",
    ]
    all_agree = True
    for row in (row for load in loads for row in rows_of(load)):
        told = ("", "") if row.ratio is None else (f"{row.measured:.4g}", f"{row.ratio:.2f}")
        lines.append(f"| {row.load} | {row.figure} | {told[0]} | {row.simulated:.4g} | {told[1]} |")
        all_agree = all_agree and row.agrees
    lines += ["", f"Fitted: {FITTED}"]
    sys.stdout.write("\n".join(lines) + "\n")
    if not all_agree:
        sys.exit(1)


if __name__ == "__main__":
    main()
