"""Prints the tables of docs/scale.md: ``scripts/scale``.

The times of a GPU and of a front end's core are measurements; what follows from them is simulated
by `tests.engine.cluster_simulator`, or multiplied.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil

from antiphon.engine.plan import CacheShape
from tests.engine.cluster_simulator import ClusterModel, ClusterReport, simulate_cluster
from tests.engine.device_model import DeviceModel
from tests.engine.simulator import Traffic

H200 = DeviceModel(
    # Of one model step without its codec: 8.0 ms at 256 rows, and 4.3 ms at 64, where the whole
    # frame takes 12.9 and 5.9 ms of which the codec has 4.9 and 1.6. Beyond 256 rows nothing has
    # been measured; no simulation here has more.
    rows_s=((1, 2.5e-3), (8, 3.85e-3), (64, 4.3e-3), (256, 8.0e-3), (1024, 22.8e-3)),
    prefill_s=2e-3,
    prefill_positions=256,
    chunk_s=0.6e-3,
    chunk_frame_s=14e-6,
)
"""The 1.7B model on one H200, see docs/performance.md."""
CACHE = CacheShape(20_000, 16, 1024)

ANSWERS = Traffic(5.0, rate_hz=1.0, median_frames=95, max_frames=400)
"""Answers of about 8.5 s; their lengths vary by half."""
MEAN_ANSWER_S = 8.5

REQUEST_S = 1.27e-3
CHUNK_S = 0.12e-3
"""CPU time of the server of one process with the toy model, on two shared cores of an AMD EPYC."""
ENCODE_S = {"pcm": 0.03e-3, "opus": 4.9e-3, "aac": 9.2e-3, "mp3": 10.9e-3}
"""CPU time of a second of audio, `antiphon.audio.encode`, on the same cores."""
KBIT_S = {"pcm": 384, "opus": 75, "aac": 99, "mp3": 97}
"""The same second's size, measured with it."""
WIRE_BYTES_S = 24_000 * 4
"""Between an engine and a front end samples are 32-bit floats."""
FRAME_BYTES_S = 12.5 * 400
"""Between a talker and a codec apart: 16 codes of 8 bytes and what is around them, per frame."""
STATUSES_HZ = 20
"""That a replica pushes to each front end, at most."""
STATUS_S = 30e-6
"""A front end's time for one; estimated."""

MAX_FIRST_S = 0.1
MIN_GAPLESS = 0.999
GPU_HEADROOM = 0.85
CORE_HEADROOM = 0.6
GPUS_OF_HOST = 8


@dataclass(frozen=True, slots=True)
class Capacity:
    """The most that a cluster serves well.

    Attributes:
        rate_hz: requests.
        report: of the simulation with them.
    """

    rate_hz: float
    report: ClusterReport


def is_served_well(report: ClusterReport) -> bool:
    """Whether listeners are all let in, wait little and hear no gap."""
    return (
        report.num_rejected == 0
        and report.gapless >= MIN_GAPLESS
        and report.first_audio_s[2] <= MAX_FIRST_S
    )


def capacity(model: ClusterModel, traffic: Traffic = ANSWERS, *, num_steps: int = 5) -> Capacity:
    """Search the highest rate of requests that a cluster serves well."""
    low, high = 0.0, 200.0 * model.num_talkers
    found = Capacity(0.0, ClusterReport(0, 0, (0.0, 0.0, 0.0), 1.0, 0.0, 0.0, 0.0))
    for _ in range(num_steps):
        rate_hz = (low + high) / 2
        report = simulate_cluster(model, replace(traffic, rate_hz=rate_hz))
        if is_served_well(report):
            low, found = rate_hz, Capacity(rate_hz, report)
        else:
            high = rate_hz
    return found


def streams_of(found: Capacity) -> float:
    """Return how many listeners play at once at this rate."""
    return found.rate_hz * MEAN_ANSWER_S


def main() -> None:
    tables = (_totals((10_000, 1_000_000)), _front_ends(), _apart())
    for line in chain.from_iterable((*table, "") for table in tables):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def _apart() -> Iterator[str]:
    yield from _head("GPUs", "placement", "slots of each", "streams", "of each GPU", "p99 ms")
    for slots in (64, 256):
        for talkers, codecs in ((1, 0), (1, 1), (3, 0), (2, 1), (5, 0), (4, 1)):
            model = ClusterModel(
                talkers, codecs, slots=slots, codec_slots=slots * talkers, device=H200, cache=CACHE
            )
            found = capacity(model)
            num_gpus = talkers + codecs
            what = f"{talkers} talkers : {codecs} codecs" if codecs else f"{talkers} whole engines"
            streams = streams_of(found)
            p99 = _ms(found.report.first_audio_s[2])
            yield _row(num_gpus, what, slots, f"{streams:.0f}", f"{streams / num_gpus:.0f}", p99)


def _front_ends() -> Iterator[str]:
    yield from _head("front ends", "streams", "p50 ms", "p99 ms", "their load")
    for number in (1, 2, 4, 8):
        model = ClusterModel(
            4,
            num_front_ends=number,
            slots=256,
            device=H200,
            cache=CACHE,
            request_s=REQUEST_S,
            chunk_s=CHUNK_S,
        )
        found = capacity(model)
        p50, _, p99 = found.report.first_audio_s
        load = f"{found.report.front_end_load:.0%}"
        yield _row(number, f"{streams_of(found):.0f}", _ms(p50), _ms(p99), load)


def _totals(numbers: Sequence[int]) -> Iterator[str]:
    long = replace(ANSWERS, duration_s=30.0)
    one = capacity(ClusterModel(1, slots=256, device=H200, cache=CACHE), long, num_steps=7)
    of_gpu = GPU_HEADROOM * streams_of(one)
    chunk_hz = one.report.num_chunks / MEAN_ANSWER_S
    yield from _head("", *(f"{each:,} streams" for each in numbers))
    yield _row("streams of a GPU", *(f"{of_gpu:.0f}" for _ in numbers))
    gpus = [ceil(each / of_gpu) for each in numbers]
    hosts = [ceil(each / GPUS_OF_HOST) for each in gpus]
    yield _row("GPUs", *(f"{each:,}" for each in gpus))
    yield _row(f"hosts of {GPUS_OF_HOST}", *(f"{each:,}" for each in hosts))
    per_stream_s = REQUEST_S / MEAN_ANSWER_S + CHUNK_S * chunk_hz
    for format, encode_s in ENCODE_S.items():
        cores = [ceil(each * (per_stream_s + encode_s) / CORE_HEADROOM) for each in numbers]
        yield _row(f"cores of front ends, {format}", *(f"{each:,}" for each in cores))
        yield _row(
            f"to listeners, {format}", *(_gbit(each * KBIT_S[format] * 1e3) for each in numbers)
        )
    wire = [each * WIRE_BYTES_S * 8 for each in numbers]
    yield _row("engines to front ends", *(_gbit(each) for each in wire))
    each_host = [_gbit(total / num) for total, num in zip(wire, hosts, strict=True)]
    yield _row("the same, of one GPU host", *each_host)
    yield _row(
        "talkers to codecs, were they apart", *(_gbit(each * FRAME_BYTES_S * 8) for each in numbers)
    )
    front_ends = [ceil(each * per_stream_s / CORE_HEADROOM) for each in numbers]
    yield _row(
        "connections of all to all", *(f"{a * b:,}" for a, b in zip(gpus, front_ends, strict=True))
    )
    yield _row(
        "a front end's core for statuses",
        *(f"{each * STATUSES_HZ * STATUS_S:.0%}" for each in gpus),
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f}"


def _gbit(bits_s: float) -> str:
    return f"{bits_s / 1e9:,.1f} Gbit/s"


def _head(*cells: str) -> Iterator[str]:
    yield _row(*cells)
    yield _row(*("---" for _ in cells))


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


if __name__ == "__main__":
    main()
