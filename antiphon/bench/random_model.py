"""A checkpoint of random weights for the time of a measurement: speed does not depend on values."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from antiphon.errors import ModelLoadError
from antiphon.models.registry import families
from antiphon.models.spec import Family
from antiphon.types import LoadProgress

CHARACTERS_PER_TOKEN = 5
"""Of English in a published tokenizer, about; random checkpoints have one token a byte."""


@contextmanager
def random_checkpoint(
    size: str, task: str, *, progress: LoadProgress, parent: Path | None = None
) -> Iterator[Path]:
    """Write a checkpoint that never says that it is done; remove it when the block ends.

    Args:
        size: one of the family's, as ``"1.7b"`` or ``"tiny"``.
        task: what it is for, as in its configuration.
        progress: called as files are written.
        parent: directory to make it in; ``None`` is the system's for temporary files. A full-size
            one takes some gigabytes.

    Raises:
        ModelLoadError: there is no such size or task, or a package that it needs is missing.
    """
    family = maker_family()
    if family.extra is not None and family.extra.missing:
        raise ModelLoadError(family.extra.missing)
    assert family.checkpoint_maker is not None
    assert family.measuring is not None
    make: Callable[..., None] = family.checkpoint_maker.resolve()
    with tempfile.TemporaryDirectory(prefix="antiphon-", dir=parent) as directory:
        path = Path(directory) / f"random-{size}-{task}"
        make(
            path,
            size=size,
            task=task,
            dtype="float32" if size.startswith("tiny") else "bfloat16",
            progress=lambda num_done, num_all: progress(path.name, num_done, num_all),
        )
        family.measuring.make_endless.resolve()(path)
        yield path


def shortened(text: str) -> str:
    """Return the beginning of a text that is as many bytes as the whole would be real tokens."""
    num_tokens = -(-len(text) // CHARACTERS_PER_TOKEN)
    return text[:num_tokens].strip() or text[:1]


def maker_family() -> Family:
    """Return the only family whose checkpoints of random weights are measured.

    Raises:
        ModelLoadError: there are several.
    """
    makers = [each for each in families() if each.measuring is not None]
    if len(makers) != 1:
        names = ", ".join(each.name for each in makers)
        raise ModelLoadError(f"Several families have random weights: {names}.")
    return makers[0]
