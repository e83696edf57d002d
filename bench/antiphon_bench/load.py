"""Target and load of a measurement, as data for client processes."""

import itertools
import random
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from antiphon_bench.adapters import TextStream
from antiphon_bench.redaction import Redaction, redaction_of

TIMEOUT_S = 600.0
"""Default time limit of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A server, and the common members of all requests to it.

    Attributes:
        is_tls: whether it is asked over TLS; its certificate must be one that the system trusts.
        query: query of the URL, with its question mark; "": none.
        api_key: key sent as a bearer token; ``None``: no key.
        fields: members of each request's body beside its text.
        frames: fewest and most frames of an answer, by which each is cut at random; ``None`` lets
            each end by itself.
        tokens_header: name of the header in which whole answers count frames.
        text_stream: protocol for text in pieces; ``None``: text goes whole, over HTTP.
        pieces_per_s: words (or characters of CJK) a second of a text stream; 0 sends all at once.
        timeout_s: time limit of an answer, counted from its request.
    """

    host: str
    port: int
    is_tls: bool = False
    path: str = "/v1/audio/speech"
    query: str = ""
    api_key: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    frames: tuple[int, int] | None = None
    tokens_header: str | None = None
    text_stream: TextStream | None = None
    pieces_per_s: float = 0.0
    timeout_s: float = TIMEOUT_S

    def tls(self) -> ssl.SSLContext | None:
        """Return with what to ask it over TLS; ``None``: without."""
        return ssl.create_default_context() if self.is_tls else None

    @property
    def redaction(self) -> Redaction:
        """Secrets of the target that must not be shown."""
        return redaction_of(self.query, self.api_key, self.fields)

    def lengths(self, index: int) -> dict[str, int]:
        """Return the members that limit the length of request number ``index``."""
        if self.frames is None:
            return {}
        num_frames = random.Random(f"frames/{index}").randint(*self.frames)
        return {"max_new_tokens": num_frames + 1}  # the token that ends speech counts


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLoad:
    """One measurement to be made.

    A closed load has ``concurrency`` streams, each of which begins its next request when one has
    ended. An open load sends requests at random times whether or not earlier ones have been
    answered, as independent clients do.

    Attributes:
        concurrency: streams of a closed load; 0 makes the load open.
        ramp_s: period over which the streams of a closed load begin, one after the other; 0: all at
            once.
        rate_hz: requests a second of an open load, on average.
        burst_size: requests that an open load sends at once; bursts come at equal intervals.
        times_s: due time of each request of a replayed trace.
        num_requests: number of requests; ``None``: the duration limits them.
        duration_s: time after which no request begins.
        seed: seed of texts and arrival times.
        first_index: number of the first request; later ones go on from there.
        stride: step between the numbers of two requests, so that processes share them.
    """

    concurrency: int = 0
    ramp_s: float = 0.0
    rate_hz: float = 0.0
    burst_size: int = 1
    times_s: tuple[float, ...] = ()
    num_requests: int | None = None
    duration_s: float | None = None
    seed: int = 0
    first_index: int = 0
    stride: int = 1

    @property
    def is_open(self) -> bool:
        return self.concurrency == 0

    def split(self, num_parts: int) -> list["HttpLoad"]:
        """Deal the load out to processes: the parts together are the whole.

        A closed load has no more parts than streams.
        """
        if not self.is_open:
            num_parts = min(num_parts, self.concurrency)
        return [
            replace(
                self,
                concurrency=_share(self.concurrency, part, num_parts),
                num_requests=None
                if self.num_requests is None
                else _share(self.num_requests, part, num_parts),
                first_index=self.first_index + part * self.stride,
                stride=self.stride * num_parts,
            )
            for part in range(num_parts)
        ]


def load_name(load: HttpLoad) -> str:
    if load.times_s:
        return f"trace of {len(load.times_s)}"
    if not load.is_open:
        return f"{load.concurrency} streams"
    if load.burst_size > 1:
        return f"bursts of {load.burst_size}, {load.rate_hz:g}/s"
    return f"{load.rate_hz:g}/s"


def load_title(result: Mapping[str, Any]) -> str:
    """Return what the load of a result is called in tables and charts."""
    streams, rate_hz = result["concurrency"], result["rate_hz"]
    return f"{streams} streams" if streams else f"{rate_hz:g} / s"


def begins_s(load: HttpLoad) -> list[float]:
    """Return when the streams of a closed load begin, from its start, at equal intervals.

    Those of the parts of a split load lie between each other.
    """
    assert not load.is_open
    part = load.first_index % load.stride / load.stride
    return [load.ramp_s * (stream + part) / load.concurrency for stream in range(load.concurrency)]


def arrivals_s(load: HttpLoad) -> list[float]:
    """Return when an open load's requests are due, from its start.

    They come as a Poisson process, in bursts, or at the times of a trace. Every part of a split
    load
    draws the whole process and keeps its own requests, so that the parts together are the whole.
    """
    assert load.is_open
    own: list[float] = []
    for index, time_s in enumerate(_due_s(load)):
        if load.num_requests is not None and len(own) >= load.num_requests:
            break
        if load.duration_s is not None and time_s > load.duration_s:
            break
        if index >= load.first_index and (index - load.first_index) % load.stride == 0:
            own.append(time_s)
    return own


def _due_s(load: HttpLoad) -> Iterator[float]:
    """Yield when each request of the whole load is due; of a trace only do they end."""
    if load.times_s:
        yield from load.times_s
        return
    if load.burst_size > 1:
        for index in itertools.count():
            yield index // load.burst_size * load.burst_size / load.rate_hz
    draws = random.Random(f"{load.seed}/arrivals")
    time_s = 0.0
    while True:
        time_s += draws.expovariate(load.rate_hz)
        yield time_s


def _share(amount: int, part: int, num_parts: int) -> int:
    """Return a part's share; shares differ by one at most."""
    return amount // num_parts + (part < amount % num_parts)
