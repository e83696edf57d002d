"""Readers of the values of flags."""

import json
from collections.abc import Sequence
from typing import Any

from antiphon.errors import SettingsError


def counts_of(given: str, name: str) -> list[int]:
    """Read a list of numbers of streams, as ``"1,8,32"``; raises SettingsError."""
    numbers = numbers_of(given, name)
    if any(number != int(number) for number in numbers):
        raise SettingsError(f"--{name}: '{given}': whole numbers are wanted.")
    return [int(number) for number in numbers]


def numbers_of(given: str, name: str) -> list[float]:
    """Read a list of numbers above 0, as ``"0.5,2"``; raises SettingsError if it is none."""
    try:
        numbers = [float(each) for each in given.split(",")]
    except ValueError as error:
        raise SettingsError(f"--{name}: '{given}' is no list of numbers.") from error
    if not all(0 < number < 1e6 for number in numbers):
        raise SettingsError(f"--{name}: '{given}': numbers above 0 are wanted.")
    return numbers


def fields_of(given: Sequence[str] | None, *, has_random_weights: bool = False) -> dict[str, Any]:
    """Read ``--field``: members of a request by name; random weights end speech anywhere."""
    own = {"ignore_eos": True} if has_random_weights else {}
    return own | dict(_field(each) for each in given or ())


def _field(given: str) -> tuple[str, Any]:
    name, separator, value = given.partition("=")
    if not separator or not name:
        raise SettingsError("--field is not KEY=VALUE.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def frames_of(given: str | None) -> tuple[int, int] | None:
    """Read ``--frames``: two numbers, or one."""
    if given is None:
        return None
    fewest, _, most = given.partition("-")
    try:
        frames = int(fewest), int(most or fewest)
    except ValueError:
        frames = 0, 0
    if not 1 <= frames[0] <= frames[1]:
        raise SettingsError(f"--frames: '{given}' is not FEWEST-MOST, as in 60-140.")
    return frames
