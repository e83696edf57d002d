"""Families whose checkpoints of random weights are measured."""

from antiphon.contracts.family import Family, Measuring
from antiphon.errors import ModelLoadError
from antiphon.families.registry import families, family


def measured_family(name: str | None, task: str | None = "speech") -> tuple[Family, Measuring]:
    """Return a family with measured random checkpoints, and how; raises ModelLoadError.

    Args:
        name: name in the registry; ``None``: the default family.
        task: measured task; ``None``: any, of a family that is named.
    """
    measured = {
        each.name: (each, each.measuring)
        for each in families()
        if each.measuring is not None and task in (None, each.measuring.task)
    }
    if name is None:
        usual = [each for each in measured.values() if each[1].is_usual]
        if not usual:
            raise ModelLoadError(f"Give a family with --family; there are: {', '.join(measured)}.")
        return usual[0]
    known = family(name).name
    if known not in measured:
        raise ModelLoadError(
            f"Random weights of '{name}' are not measured{f' for {task}' if task else ''}; those"
            f" of {', '.join(measured)} are."
        )
    return measured[known]
