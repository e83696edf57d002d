"""Makes the parity fixtures anew: what the official package makes of our checkpoints.

    python -m tests.families.qwen3_tts.oracle.refresh ORACLE

ORACLE is the environment that setup_oracle.py made; this module itself runs in our own. It writes
fixtures/parity.npz and fixtures/spoken.npz (speech), fixtures/tokens.json (text to ids) and
fixtures/layouts.json.gz (the tensors of full-size models).
"""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.families.qwen3_tts.oracle.cases import CHECKPOINTS
from tests.families.qwen3_tts.random_checkpoint import (
    Size,
    make_full_checkpoint,
    write_all_but_weights,
)

HERE = Path(__file__).parent
FIXTURES = HERE.parent / "fixtures"
FULL_SIZES: dict[Size, str] = {"0.6b": "custom_voice", "1.7b": "base"}


def refresh(oracle: Path) -> None:
    with TemporaryDirectory() as folder:
        _record_speech(oracle, Path(folder))
    with TemporaryDirectory() as folder:
        _record_tokens(oracle, Path(folder))
    layouts = {}
    for size, task in FULL_SIZES.items():
        with TemporaryDirectory() as folder:
            layouts[size] = official_layout(oracle, Path(folder), size, task)
    packed = gzip.compress(json.dumps(layouts).encode(), mtime=0)
    (FIXTURES / "layouts.json.gz").write_bytes(packed)


def official_layout(oracle: Path, folder: Path, size: Size, task: str) -> Any:
    """Return the official names and shapes, under ``main`` and ``codec``."""
    write_all_but_weights(folder, size=size, task=task, dtype="float32")
    return json.loads(run_in_oracle(oracle, "layout.py", folder).splitlines()[-1])


def run_in_oracle(oracle: Path, script: str, *arguments: Path) -> str:
    python = oracle / "bin" / "python"
    command = [str(part) for part in (python, "-W", "ignore", HERE / script, *arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, text=True, check=True)
    return done.stdout


def _record_speech(oracle: Path, folder: Path) -> None:
    for name, (size, task, seed) in CHECKPOINTS.items():
        chosen: Any = size
        make_full_checkpoint(folder / name, size=chosen, task=task, seed=seed)
    sys.stdout.write(run_in_oracle(oracle, "record.py", folder, FIXTURES / "parity.npz"))
    sys.stdout.write(run_in_oracle(oracle, "record_spoken.py", folder, FIXTURES / "spoken.npz"))


def _record_tokens(oracle: Path, folder: Path) -> None:
    write_all_but_weights(folder, size="tiny", task="base", vocabulary="full", dtype="float32")
    ids = run_in_oracle(oracle, "record_tokens.py", folder).splitlines()[-1]
    (FIXTURES / "tokens.json").write_text(ids + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.families.qwen3_tts.oracle.refresh ORACLE")
    refresh(Path(sys.argv[1]))
