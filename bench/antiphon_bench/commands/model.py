"""Source of the measured model: an existing one, or a temporary one with random weights."""

from collections.abc import Iterator
from contextlib import contextmanager


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
        family: family of the random checkpoint; ``None``: the default one.

    Raises:
        SettingsError: Both or neither are given, or a family without ``random``.
        ModelLoadError: there is no such random checkpoint.
    """
    from antiphon.errors import SettingsError

    refuse_without_random(random, family)
    if (model is None) == (random is None):
        raise SettingsError("Give either a model or the size of a random one, --random.")
    if random is None:
        assert model is not None
        yield model
        return

    from antiphon.families.measured import measured_family
    from antiphon_bench.random_model import random_checkpoint

    found, _ = measured_family(family, of_task)
    with random_checkpoint(random, task, of_family=found.name) as path:
        yield str(path)


def random_source(family: str | None, size: str, task: str) -> str:
    """Return what reports call random weights, whose path is a temporary one."""
    return " ".join(["random", *filter(None, (family, size, task))])


def refuse_without_random(random: str | None, family: str | None) -> None:
    """Raise SettingsError if a family is named where no random weights are asked for."""
    from antiphon.errors import SettingsError

    if random is None and family is not None:
        raise SettingsError(
            "--family names the family whose random weights --random makes: give both."
        )
