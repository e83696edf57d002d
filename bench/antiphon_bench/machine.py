"""Provenance of a measurement: machine, software and command."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from antiphon import __version__
from antiphon.concurrency import num_usable_cores
from antiphon.placement.host_cpu import cpu_name
from antiphon_bench.redaction import Redaction

_PACKAGES = ("torch", "triton", "numpy", "uvicorn", "uvloop", "httptools")
_QUERY = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
_TIMEOUT_S = 20


def provenance() -> dict[str, Any]:
    """Return versions, command line without keys, date and machine, ready for JSON."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": ["antiphon", *shown_command(sys.argv[1:])],
        "antiphon": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "packages": _versions(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_name(),
        "cores": num_usable_cores(),
        "gpus": gpus(),
    }


def shown_command(arguments: Sequence[str]) -> list[str]:
    """Return arguments without keys, and without the folders of the machine that they ran on."""
    return [_without_folders(each) for each in Redaction().command(arguments)]


def _without_folders(argument: str) -> str:
    option, sign, value = argument.partition("=") if argument[:2] == "--" else ("", "", argument)
    return f"{option}{sign}{Path(value).name}" if value[:1] == "/" else argument


def version_of(report: Mapping[str, Any]) -> str:
    """Return the version that made a report, for people."""
    commit = f", commit {report['commit']}" if report["commit"] else ""
    return f"Antiphon {report['antiphon']}{commit}"


def machine_of(report: Mapping[str, Any]) -> str:
    """Return when and on which hardware a report was made, for people."""
    machine = [report["cpu"] or report["machine"], f"{report['cores']} cores", *report["gpus"]]
    return f"{report['measured_at']}; {', '.join(machine)}"


def commit() -> str | None:
    """Return the commit, with ``+`` if files were changed since; ``None`` outside git."""
    folder = Path(__file__).parent
    if shutil.which("git") is None or not (folder.parents[1] / ".git").exists():
        return None
    named = _output("git", "-C", str(folder), "rev-parse", "--short=12", "HEAD").strip()
    changed = _output("git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no")
    return f"{named}+" if named and changed.strip() else named or None


def gpus() -> list[str]:
    """Return name, driver and memory of each NVIDIA GPU; none if there is no driver."""
    if shutil.which(_QUERY[0]) is None:
        return []
    output = _output(*_QUERY)
    return [line.strip() for line in output.splitlines() if line.strip()]


def _output(*command: str) -> str:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
