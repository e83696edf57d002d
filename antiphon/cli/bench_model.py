"""Which model a measurement is about: one that is there, or one of random weights made for it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import typer


@contextmanager
def model_to_measure(model: str | None, random: str | None, task: str) -> Iterator[str]:
    """Yield a model's source; a random checkpoint is removed when the block ends.

    Args:
        model: a built-in model, a directory or a hub id; ``None`` if ``random`` is given.
        random: size of a random checkpoint.
        task: of the random checkpoint.

    Raises:
        SettingsError: both are given, or none.
        ModelLoadError: there is no such random checkpoint.
    """
    from antiphon.errors import SettingsError

    if (model is None) == (random is None):
        raise SettingsError("Give either a model or the size of a random one, --random.")
    if random is None:
        assert model is not None
        yield model
        return

    from antiphon.bench.random_model import random_checkpoint
    from antiphon.cli.progress import shown_progress

    with ExitStack() as stack:
        with shown_progress("writing", partial(typer.echo, err=True)) as progress:
            path = stack.enter_context(random_checkpoint(random, task, progress=progress))
        yield str(path)
