"""Which model a measurement is about: one that is there, or one of random weights made for it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import typer


@contextmanager
def model_to_measure(
    model: str | None,
    random: str | None,
    task: str,
    family: str | None = None,
    of_task: str = "speech",
) -> Iterator[str]:
    """Yield a model's source; a random checkpoint is removed when the block ends.

    Args:
        model: a built-in model, a directory or a hub id; ``None`` if ``random`` is given.
        random: size of a random checkpoint.
        task: of the random checkpoint.
        family: whose random checkpoint; ``None`` is the usual one.
        of_task: which task of that family is to be measured.

    Raises:
        SettingsError: both are given, or none, or a family without ``random``.
        ModelLoadError: there is no such random checkpoint.
    """
    from antiphon.errors import SettingsError

    if family is not None and random is None:
        raise SettingsError("--family says whose random weights --random makes: give both.")
    if (model is None) == (random is None):
        raise SettingsError("Give either a model or the size of a random one, --random.")
    if random is None:
        assert model is not None
        yield model
        return

    from antiphon.bench.random_model import measured_family, random_checkpoint
    from antiphon.cli.progress import shown_progress

    found, _ = measured_family(family, of_task)
    with ExitStack() as stack:
        with shown_progress("writing", partial(typer.echo, err=True)) as progress:
            made = random_checkpoint(random, task, progress=progress, of_family=found.name)
            path = stack.enter_context(made)
        yield str(path)
