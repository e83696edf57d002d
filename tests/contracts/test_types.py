"""The shared vocabulary."""

from dataclasses import asdict, fields
from typing import Any

from antiphon.contracts.types import Sampling


def test_each_parameter_that_is_not_given_has_its_default() -> None:
    names = [field.name for field in fields(Sampling)]
    defaults: dict[str, Any] = {name: number for number, name in enumerate(names, start=1)}
    for name in names:
        for value in (99, 0):
            own: dict[str, Any] = {name: value}
            given = Sampling(**own).with_defaults(Sampling(**defaults))
            assert asdict(given) == {**defaults, name: value}
