"""What measurements of other people's programs share: random weights that we measure, too."""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from antiphon.families.measured import measured_family
from antiphon_bench.machine import provenance, shown_command
from tests.families.whole_checkpoints import maker_of


def peer_flags(description: str, size: str) -> argparse.ArgumentParser:
    """Return a parser of the flags that all have; ``size`` is the default one."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--size", default=size, help="of the random weights")
    parser.add_argument("--random-dir", type=Path, required=True, help="where they are kept")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument("--json", type=Path, help="write everything here")
    return parser


def device_of(wanted: str) -> str:
    import torch

    if wanted != "auto":
        return wanted
    return "cuda" if torch.cuda.is_available() else "cpu"


def weights_of(given: argparse.Namespace, family: str, task: str) -> Path:
    """Write a checkpoint, whose weights are drawn when it is loaded, and return its directory."""
    path: Path = given.random_dir / f"{family}-{given.size}-{task}"
    found, measuring = measured_family(family, None)
    assert found.checkpoint_maker is not None
    dtype = "float32" if given.size.startswith("tiny") else measuring.dtype
    found.checkpoint_maker.resolve()(path, size=given.size, task=task, dtype=dtype)
    return path


def files_of(given: argparse.Namespace, family: str, task: str) -> Path:
    """Return a checkpoint whose weights are in files, for programs that cannot draw them."""
    path: Path = given.random_dir / f"{family}-{given.size}-{task}-whole"
    if not path.exists():
        unfinished = path.with_name(f"{path.name}.part")
        dtype = "float32" if given.size.startswith("tiny") else "bfloat16"
        maker_of(family)(unfinished, size=given.size, task=task, dtype=dtype)
        unfinished.rename(path)
    return path


def report(given: argparse.Namespace, package: str, results: Sequence[dict[str, Any]]) -> None:
    """Print results, and write them with what they were measured on, if that is asked for."""
    content = provenance()
    try:
        content["packages"] |= {package: version(package)}
    except PackageNotFoundError:
        content["packages"] |= {package: None}  # a folder that pip does not know
    content |= {
        "command": ["python", *shown_command(sys.argv)],
        "kind": f"peer {package}",
        "results": [*results],
    }
    if given.json is not None:
        given.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    sys.stdout.writelines(f"{json.dumps(each)}\n" for each in results)
