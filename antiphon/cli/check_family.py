"""``antiphon dev check-family``: from one whole file to listeners over HTTP, with a report."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli.tables import show_table

if TYPE_CHECKING:
    from antiphon.bench.family_check import Finding, OnFinding
    from antiphon.config import ModelSettings

_RANDOM_FRAMES = 40


def check_family(
    name: Annotated[str, typer.Argument(help="A family's name.", show_default=False)],
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="A directory or a hub id; without, a tiny one of random weights is made if the"
            " family needs any.",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="What the made checkpoint is for, of the family's tasks.",
            show_default="the family's first",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "auto",
    concurrency: Annotated[int, typer.Option(help="Requests at the same time.", min=2)] = 4,
    allow_slow: Annotated[
        bool, typer.Option("--allow-slow", help="Tell speed and gaps, but fail by neither.")
    ] = False,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run Python code of the checkpoint.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check that a family speaks: offline, streaming, seeds, a crowd, cancelling, and over HTTP.

    The exit status is 1 if anything fails.
    """
    from antiphon.config import ModelSettings

    findings: list[Finding] = []

    def take(finding: "Finding") -> None:
        findings.append(finding)
        typer.echo(f"{_verdict(finding, allow_slow)}  {finding.check}", err=True)

    with _checkpoint_of(name, checkpoint, task) as (source, is_random):
        settings = ModelSettings(
            source=source,
            device=device,
            deterministic=True,
            max_slots=concurrency,
            # Code of a made checkpoint is what the family's own maker wrote.
            trust_remote_code=trust_remote_code or is_random,
        )
        _check(settings, concurrency, _RANDOM_FRAMES if is_random else None, take)
    rows = [[_verdict(each, allow_slow), each.check, each.detail] for each in findings]
    show_table([asdict(each) for each in findings], ("", "Check", "Found"), rows, as_json)
    if any(_fails(each, allow_slow) for each in findings):
        raise typer.Exit(1)


def _check(
    settings: "ModelSettings", concurrency: int, max_frames: int | None, take: "OnFinding"
) -> None:
    """Check a model in this process, then a server of its own."""
    import asyncio

    from antiphon.bench.family_check import FamilyCheckPlan, check_in_process
    from antiphon.bench.family_check_http import check_over_http
    from antiphon.bench.server import own_server

    # On a machine that is too slow for a crowd, streams wait for each other and are not refused.
    patient = settings.model_copy(update={"max_waiting": sys.maxsize, "max_wait_s": inf})
    plan = FamilyCheckPlan(model=patient, num_concurrent=concurrency, max_frames=max_frames)
    capabilities = asyncio.run(check_in_process(plan, take))
    assert settings.source is not None
    flags = [settings.source, "--device", settings.device, "--max-slots", str(concurrency)]
    flags += ["--trust-remote-code"] if settings.trust_remote_code else []
    with own_server(flags) as url:
        asyncio.run(check_over_http(plan, url, capabilities, take))


def _fails(finding: "Finding", allow_slow: bool) -> bool:
    return not finding.is_met and not (finding.is_speed and allow_slow)


def _verdict(finding: "Finding", allow_slow: bool) -> str:
    if _fails(finding, allow_slow):
        return "FAIL"
    return "ok  " if finding.is_met else "slow"


@contextmanager
def _checkpoint_of(
    name: str, checkpoint: str | None, task: str | None
) -> Iterator[tuple[str, bool]]:
    """Yield what is to be served, and whether its weights are random ones made for this.

    Raises:
        ModelLoadError: there is no such family, it does not speak, or what it needs is missing.
    """
    from antiphon.errors import ModelLoadError
    from antiphon.models.registry import family
    from antiphon.pipeline.speech.model import SPEECH

    found = family(name)
    if SPEECH not in found.tasks:
        raise ModelLoadError(f"'{name}' does not speak: its tasks are {', '.join(found.tasks)}.")
    if found.extra is not None and found.extra.missing:
        raise ModelLoadError(found.extra.missing)
    if checkpoint is not None or not found.needs_checkpoint:
        yield checkpoint or name, False
        return
    if found.checkpoint_maker is None:
        raise ModelLoadError(f"'{name}' makes no checkpoints: give one with --checkpoint.")
    with tempfile.TemporaryDirectory(prefix="antiphon-") as folder:
        path = Path(folder) / name
        path.mkdir()
        found.checkpoint_maker.resolve()(
            path, size="tiny", **({} if task is None else {"task": task})
        )
        yield str(path), True
