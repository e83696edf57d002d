"""``antiphon dev check-family``: from one whole file to listeners over HTTP, with a report."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli import completion
from antiphon.cli.flags import flag
from antiphon.cli.tables import show_table
from antiphon.errors import ModelLoadError

if TYPE_CHECKING:
    from antiphon.family_check.subject import Finding


@dataclass(frozen=True, slots=True)
class CheckFamilyFlags:
    """The flags of ``antiphon dev check-family``."""

    name: Annotated[
        str,
        typer.Argument(
            help="A family's name.", show_default=False, autocompletion=completion.families
        ),
    ]
    checkpoint: Annotated[
        str | None,
        flag(
            "A directory or a hub id; without, a tiny one of random weights is made if the"
            " family needs any."
        ),
    ] = None
    task: Annotated[
        str | None,
        flag("What the made checkpoint is for, of the family's tasks.", "the family's first"),
    ] = None
    reference: Annotated[
        Path | None,
        flag(
            "Expected output, an .npz file with 'text', 'seed', and 'codes' of frames x codebooks"
            " or 'samples'; also 'voice', 'language', 'temperature', 'max_frames'.",
            False,
            metavar="FILE.npz",
        ),
    ] = None
    device: Annotated[str, flag("cpu, cuda, cuda:N or auto.", True)] = "auto"
    concurrency: Annotated[int, flag("Requests at the same time.", True, min=2)] = 4
    allow_slow: Annotated[
        bool, flag("Report speed and gaps, but fail by neither.", True, "--allow-slow")
    ] = False
    trust_remote_code: Annotated[
        bool, flag("Run Python code of the checkpoint.", True, "--trust-remote-code")
    ] = False
    as_json: Annotated[bool, flag("Print JSON.", True, "--json")] = False


def check_family(flags: CheckFamilyFlags) -> None:
    """Check that a family speaks: its end, rate, seeds, batching, resuming, memory, and over HTTP.

    The exit status is 1 if anything fails.
    """
    import asyncio

    from antiphon.cli.own_server import own_server
    from antiphon.config import ModelSettings
    from antiphon.family_check.in_process import BOUNDED_FRAMES, ENDS, check_in_process
    from antiphon.family_check.over_http import check_over_http
    from antiphon.family_check.reference_check import read_reference
    from antiphon.family_check.subject import FamilyCheckPlan

    expected = None if flags.reference is None else read_reference(flags.reference)
    findings: list[Finding] = []

    def take(finding: "Finding") -> None:
        findings.append(finding)
        typer.echo(f"{_verdict(finding, flags.allow_slow)}  {finding.check}", err=True)

    with _checkpoint_of(flags.name, flags.checkpoint, flags.task) as (source, is_random):
        settings = ModelSettings(
            source=source,
            device=flags.device,
            deterministic=True,
            max_slots=flags.concurrency,
            # Code of a made checkpoint is what the family's own maker wrote.
            trust_remote_code=flags.trust_remote_code or is_random,
        )
        # On a machine too slow for the concurrency, streams wait for each other: none is refused.
        patient = settings.model_copy(update={"max_waiting": sys.maxsize, "max_wait_s": inf})
        plan = FamilyCheckPlan(
            model=patient,
            num_concurrent=flags.concurrency,
            max_frames=BOUNDED_FRAMES if is_random else None,
        )
        capabilities = asyncio.run(check_in_process(plan, take, expected))
        if any(finding.check == ENDS and not finding.is_met for finding in findings):
            plan = replace(plan, max_frames=BOUNDED_FRAMES)
        options = ["--device", flags.device, "--max-slots", str(flags.concurrency)]
        options += ["--trust-remote-code"] if settings.trust_remote_code else []
        with own_server([source, *options]) as url:
            asyncio.run(check_over_http(plan, url, capabilities, take))
    rows = [[_verdict(each, flags.allow_slow), each.check, each.detail] for each in findings]
    show_table([asdict(each) for each in findings], ("", "Check", "Found"), rows, flags.as_json)
    if any(_fails(each, flags.allow_slow) for each in findings):
        raise typer.Exit(1)


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
    """Yield the model to serve, and whether its weights are random ones made for this check.

    Raises:
        ModelLoadError: there is no such family, it does not speak, or what it needs is missing.
    """
    from antiphon.families.registry import family
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
