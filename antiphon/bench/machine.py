"""What a measurement was made on, so that its figures can be judged and made again."""

import platform
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from antiphon import __version__
from antiphon.concurrency import num_usable_cores

_PACKAGES = ("torch", "triton", "numpy", "uvicorn", "uvloop", "httptools")
_QUERY = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
_TIMEOUT_S = 20


def provenance() -> dict[str, Any]:
    """Return versions, command line, date and machine, ready for JSON."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": ["antiphon", *sys.argv[1:]],
        "antiphon": __version__,
        "python": platform.python_version(),
        "packages": _versions(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": num_usable_cores(),
        "gpus": gpus(),
    }


def gpus() -> list[str]:
    """Return name, driver and memory of each NVIDIA GPU; none if there is no driver."""
    if shutil.which(_QUERY[0]) is None:
        return []
    try:
        output = subprocess.run(
            _QUERY, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in output.splitlines() if line.strip()]


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
