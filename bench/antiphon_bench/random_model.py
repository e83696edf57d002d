"""A checkpoint of random weights for the time of a measurement: speed does not depend on values."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from antiphon.errors import ModelLoadError
from antiphon.families.measured import measured_family

CHARACTERS_PER_TOKEN = 5
"""Of English in a published tokenizer, about; random checkpoints have one token a byte."""


@contextmanager
def random_checkpoint(
    size: str,
    task: str,
    *,
    of_family: str | None = None,
) -> Iterator[Path]:
    """Write a checkpoint; remove it when the block ends; raises ModelLoadError.

    Args:
        size: one of the family's, as ``"1.7b"`` or ``"tiny"``.
        of_family: name of the family; ``None``: the default family of speech benchmarks.
    """
    found, measuring = measured_family(of_family, "speech" if of_family is None else None)
    if found.extra is not None and found.extra.missing:
        raise ModelLoadError(found.extra.missing)
    assert found.checkpoint_maker is not None, "what is measured makes checkpoints"
    make: Callable[..., None] = found.checkpoint_maker.resolve()
    with tempfile.TemporaryDirectory(prefix="antiphon-") as directory:
        path = Path(directory) / f"random-{size}-{task}"
        make(
            path,
            size=size,
            task=task,
            dtype="float32" if size.startswith("tiny") else measuring.dtype,
        )
        yield path


def shortened(text: str) -> str:
    """Return the beginning of a text that is as many bytes as the whole would be real tokens."""
    num_tokens = -(-len(text) // CHARACTERS_PER_TOKEN)
    return text[:num_tokens].strip() or text[:1]
