"""A checkpoint that is made without weights can be read, whatever its size is."""

from pathlib import Path

import pytest

from antiphon.families.registry import families, family

MADE = [
    (each.name, size)
    for each in families()
    if each.draws_weights and each.checkpoint_maker and not (each.extra and each.extra.missing)
    for size in each.checkpoint_maker.resolve().sizes
]


@pytest.mark.parametrize(("name", "size"), MADE)
def test_a_made_checkpoint_has_no_problems(name: str, size: str, tmp_path: Path) -> None:
    found = family(name)
    assert found.checkpoint_maker is not None
    assert found.inspector is not None
    found.checkpoint_maker.resolve()(tmp_path, size=size)
    assert found.inspector.resolve()(tmp_path).problems == ()
