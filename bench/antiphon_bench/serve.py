"""Benchmark of a server over HTTP: each load is warmed up, run and summarized in turn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import SplitResult, urlsplit

from antiphon.concurrency import num_usable_cores
from antiphon.contracts.types import LoadProgress
from antiphon.errors import SettingsError
from antiphon.family_check.texts import TEXTS
from antiphon_bench.driver import Done, Runs, client_processes, run_or_cut
from antiphon_bench.load import TIMEOUT_S, HttpLoad, Target, arrivals_s, load_name
from antiphon_bench.machine import provenance
from antiphon_bench.redaction import plain_address
from antiphon_bench.summary import HttpResult, summarize

_PORTS = {"http": 80, "https": 443}
_MOST_PROCESSES = 4
_CORES_PER_PROCESS = 4
_WARM_UP_SEED = 1_000_003


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPlan:
    """All measurements of a run.

    Attributes:
        warm_up_requests: requests sent before each load and not counted; ``None``: one per stream.
        prebuffer_s: audio that is buffered before playback begins.
        num_processes: number of client processes; ``None``: by the machine's cores.
    """

    target: Target
    loads: Sequence[HttpLoad]
    texts: Sequence[str] = TEXTS
    warm_up_requests: int | None = None
    prebuffer_s: float = 0.0
    num_processes: int | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


def target_of(
    url: str,
    *,
    api_key: str | None,
    fields: Mapping[str, Any],
    frames: tuple[int, int] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Target:
    """Return the endpoint of a server's address, with or without ``/v1``; raises SettingsError."""
    if fields.get("response_format") not in ("pcm", "wav"):
        raise SettingsError(
            "Only pcm and wav can be measured: how long a piece plays must be known.",
        )
    parts, port = _address(url)
    base = parts.path.rstrip("/").removesuffix("/v1")
    return Target(
        host=parts.hostname or "",
        port=port,
        is_tls=parts.scheme == "https",
        path=f"{base}/v1/audio/speech",
        query=f"?{parts.query}" if parts.query else "",
        api_key=api_key,
        fields=fields,
        frames=frames,
        timeout_s=timeout_s,
    )


def _address(url: str) -> tuple[SplitResult, int]:
    address = plain_address(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"'{address}' is no address: {plain_address(str(error))}") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise SettingsError(f"'{address}' is no http:// or https:// address.")
    if parts.username is not None or parts.password is not None:
        raise SettingsError(f"'{address}': a key is given with --api-key, not in the address.")
    return parts, port or _PORTS[parts.scheme]


def default_processes() -> int:
    """Return how many client processes leave enough cores to a server beside them."""
    return max(1, min(_MOST_PROCESSES, num_usable_cores() // _CORES_PER_PROCESS))


def measure(
    plan: HttpPlan,
    on_result: Callable[[HttpResult], None],
    progress: LoadProgress = lambda *_: None,
) -> dict[str, Any]:
    """Run all loads, each result to ``on_result``; return results and machine for JSON.

    After an interrupt, the report holds the loads measured so far; of the last one it holds the
    answered requests. ``progress`` is called with the number of finished loads.

    Raises:
        SettingsError: a load has no request.
        KeyboardInterrupt: nothing had been measured.
    """
    refuse_empty(plan.loads)
    results: list[dict[str, Any]] = []
    num_processes = plan.num_processes or default_processes()
    is_interrupted = False
    try:
        with client_processes(num_processes) as run:
            for number, load in enumerate(plan.loads):
                progress("loads", number, len(plan.loads))
                done = partial(_report_done, progress, load)
                result, is_interrupted = _measured(run, plan, load, done)
                if result is not None:
                    on_result(result)
                    results.append(asdict(result))
                if is_interrupted:
                    break
            else:
                progress("loads", len(plan.loads), len(plan.loads))
    except KeyboardInterrupt:
        is_interrupted = True
    if is_interrupted and not results:
        raise KeyboardInterrupt
    report = {
        **provenance(),
        "kind": "serve",
        "fields": dict(plan.target.fields),
        "frames": plan.target.frames,
        "timeout_s": plan.target.timeout_s,
        "prebuffer_s": plan.prebuffer_s,
        "client_processes": num_processes,
        **plan.notes,
        "loads": [asdict(load) for load in plan.loads[: len(results)]],
        "interrupted": is_interrupted,
        "results": results,
    }
    return dict(plan.target.redaction.value(report))


def refuse_empty(loads: Sequence[HttpLoad]) -> None:
    """Raise SettingsError if an open load is so short that it has no request."""
    if any(load.is_open and not arrivals_s(load) for load in loads):
        raise SettingsError("The load is so short that it has no request.")


def _report_done(progress: LoadProgress, load: HttpLoad, num_done: int) -> None:
    if load.num_requests is not None:
        progress(f"{load_name(load)}, requests", num_done, load.num_requests)


def _measured(
    run: Runs, plan: HttpPlan, load: HttpLoad, done: Done
) -> tuple[HttpResult | None, bool]:
    """Return the result of a load, if it had a request, and whether it was interrupted."""
    warm_up(run, plan.target, plan.texts, load, plan.warm_up_requests)
    parts, is_interrupted = run_or_cut(run, load, plan.target, plan.texts, done)
    records = [record for part in parts for record in part.records]
    done(len(records))
    if not records:
        return None, is_interrupted
    result = summarize(
        load,
        records,
        prebuffer_s=plan.prebuffer_s,
        client_cpu_share=max(part.cpu_share for part in parts),
    )
    return result, is_interrupted


def warm_up(
    run: Runs, target: Target, texts: Sequence[str], load: HttpLoad, num_requests: int | None
) -> None:
    """Send requests that do not count, as many at a time as the load will."""
    if num_requests is None:
        num_requests = max(1, load.concurrency)
    if num_requests:
        warm = replace(
            load,
            concurrency=load.concurrency or min(num_requests, 8),
            rate_hz=0.0,
            burst_size=1,
            times_s=(),
            num_requests=num_requests,
            duration_s=None,
            seed=load.seed + _WARM_UP_SEED,
        )
        run(warm, target, texts)
