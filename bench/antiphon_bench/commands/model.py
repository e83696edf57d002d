"""Source of the measured model: an existing one, or a temporary one with random weights."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path


@contextmanager
def model_to_measure(
    model: str | None,
    random: str | None,
    task: str,
    family: str | None = None,
    of_task: str = "speech",
    random_dir: Path | None = None,
) -> Iterator[str]:
    """Yield a model's source; a random checkpoint that is not kept is removed when the block ends.

    Args:
        model: a built-in model, a directory or a hub id; ``None`` if ``random`` is given.
        family: family of the random checkpoint; ``None``: the default one.
        random_dir: folder in which random checkpoints are kept; ``None``: they are not kept.

    Raises:
        SettingsError: Both or neither are given, or options of random weights are given without
            ``random``.
        ModelLoadError: there is no such random checkpoint.
    """
    from antiphon.errors import SettingsError

    refuse_without_random(random, family, random_dir)
    if (model is None) == (random is None):
        raise SettingsError("Give either a model or the size of a random one, --random.")
    if random is None:
        assert model is not None
        yield model
        return

    from antiphon.families.measured import measured_family
    from antiphon_bench.random_model import random_checkpoint

    found, _ = measured_family(family, of_task)
    with ExitStack() as stack:
        if random_dir is not None:
            from antiphon_bench.kept_model import kept_checkpoint

            path = kept_checkpoint(random_dir, random, task, of_family=found.name)
        else:
            path = stack.enter_context(random_checkpoint(random, task, of_family=found.name))
        yield str(path)


def random_source(family: str | None, size: str, task: str) -> str:
    """Return what reports call random weights, whose path is a temporary one."""
    return " ".join(["random", *filter(None, (family, size, task))])


def refuse_without_random(random: str | None, family: str | None, random_dir: Path | None) -> None:
    """Raise SettingsError if random weights are described where none are asked for."""
    from antiphon.errors import SettingsError

    if random is None and family is not None:
        raise SettingsError(
            "--family names the family whose random weights --random makes: give both."
        )
    if random is None and random_dir is not None:
        raise SettingsError("--random-dir keeps the random weights that --random makes: give both.")
