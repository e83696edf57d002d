"""Checkpoints of random weights that are kept in a folder, where measurements find them again."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from antiphon.families.measured import measured_family
from antiphon_bench.random_model import random_checkpoint


def kept_checkpoint(
    folder: Path,
    size: str,
    task: str,
    *,
    of_family: str | None = None,
) -> Path:
    """Return a checkpoint of random weights in a folder; it is made if it is not there.

    Each family, size and task has a folder of its own within, which is there only when it is
    complete. What an interrupted call has left is removed by the next; two calls at a time make
    it once. The folder does not record the version of the code that wrote it.

    Args:
        folder: folder of kept checkpoints; created if it is missing.
        size: one of the family's, as ``"1.7b"`` or ``"tiny"``.
        task: task of the checkpoint, as in its configuration.
        of_family: name of the family; ``None``: the default family of speech benchmarks.

    Raises:
        ModelLoadError: there is no such family, size or task, or a package that it needs is
            missing.
    """
    family = measured_family(of_family, "speech" if of_family is None else None)[0].name
    path = folder.absolute() / f"{family}-{size}-{task}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.with_name(f"{path.name}.lock")):
        if not path.exists():
            unfinished = path.with_name(f"{path.name}.part")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            made = random_checkpoint(size, task, parent=unfinished, of_family=family)
            try:
                with made as whole:
                    os.rename(whole, path)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return path


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold a file's lock, which ends with the process, too."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
