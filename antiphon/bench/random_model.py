"""A checkpoint of random weights for the time of a measurement: speed does not depend on values."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from antiphon.contracts.family import Family, Measuring
from antiphon.contracts.types import LoadProgress
from antiphon.errors import ModelLoadError
from antiphon.families.registry import families, family

CHARACTERS_PER_TOKEN = 5
"""Of English in a published tokenizer, about; random checkpoints have one token a byte."""


@contextmanager
def random_checkpoint(
    size: str,
    task: str,
    *,
    progress: LoadProgress,
    parent: Path | None = None,
    of_family: str | None = None,
) -> Iterator[Path]:
    """Write a checkpoint; remove it when the block ends.

    Args:
        size: one of the family's, as ``"1.7b"`` or ``"tiny"``.
        task: task of the checkpoint, as in its configuration.
        progress: callback for written files.
        parent: directory to make it in; ``None`` is the system's for temporary files. A full-size
            one takes some gigabytes.
        of_family: name of the family; ``None``: the default family of speech benchmarks.

    Raises:
        ModelLoadError: there is no such family, size or task, or a package that it needs is
            missing.
    """
    found, measuring = measured_family(of_family, "speech" if of_family is None else None)
    if found.extra is not None and found.extra.missing:
        raise ModelLoadError(found.extra.missing)
    assert found.checkpoint_maker is not None, "what is measured makes checkpoints"
    make: Callable[..., None] = found.checkpoint_maker.resolve()
    with tempfile.TemporaryDirectory(prefix="antiphon-", dir=parent) as directory:
        path = Path(directory) / f"random-{size}-{task}"
        make(
            path,
            size=size,
            task=task,
            dtype="float32" if size.startswith("tiny") else measuring.dtype,
            progress=lambda num_done, num_all: progress(path.name, num_done, num_all),
        )
        yield path


def shortened(text: str) -> str:
    """Return the beginning of a text that is as many bytes as the whole would be real tokens."""
    num_tokens = -(-len(text) // CHARACTERS_PER_TOKEN)
    return text[:num_tokens].strip() or text[:1]


def measured_family(name: str | None, task: str | None = "speech") -> tuple[Family, Measuring]:
    """Return a family whose checkpoints of random weights are measured, and how.

    Args:
        name: name in the registry; ``None``: the default family.
        task: measured task; ``None``: any, of a family that is named.

    Raises:
        ModelLoadError: there is no such family, or its random weights are not measured; or none is
            the usual one.
    """
    measured = {
        each.name: (each, each.measuring)
        for each in families()
        if each.measuring is not None and task in (None, each.measuring.task)
    }
    if name is None:
        usual = [each for each in measured.values() if each[1].is_usual]
        if not usual:
            raise ModelLoadError(f"Say whose with --family; there are: {', '.join(measured)}.")
        return usual[0]
    known = family(name).name
    if known not in measured:
        raise ModelLoadError(
            f"Random weights of '{name}' are not measured{f' for {task}' if task else ''}; those"
            f" of {', '.join(measured)} are."
        )
    return measured[known]
