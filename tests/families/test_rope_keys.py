"""Parameters of the rotary embedding, wherever a generation of files keeps them."""

from pathlib import Path
from typing import Any

import pytest

from antiphon.contracts.config_file import ConfigSection

YARN = {"rope_type": "yarn", "rope_theta": 7.0}


@pytest.mark.parametrize(
    ("values", "theta", "kind"),
    [
        ({}, 10000.0, "default"),
        ({"rope_theta": 5}, 5.0, "default"),
        ({"rope_theta": 5, "rope_parameters": YARN}, 7.0, "yarn"),
        ({"rope_theta": 5, "rope_scaling": {"type": "linear"}}, 5.0, "linear"),
        ({"rope_parameters": YARN, "rope_scaling": {"type": "linear"}}, 10000.0, "linear"),
        ({"rope_parameters": YARN, "rope_scaling": {}}, 7.0, "yarn"),
        ({"rope_parameters": {"full_attention": YARN}}, 7.0, "yarn"),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]}}, 10000.0, "default"),
    ],
)
def test_precedence_is_that_of_transformers(
    values: dict[str, Any], theta: float, kind: str
) -> None:
    rope = ConfigSection(Path("config.json"), "", values).rope()
    assert rope.number("rope_theta") == theta
    assert rope.text("rope_type") == kind


def test_keys_beside_the_object_count() -> None:
    values = {"partial_rotary_factor": 0.5, "original_max_position_embeddings": 64}
    rope = ConfigSection(Path("config.json"), "", values | {"rope_parameters": YARN}).rope()
    assert rope.number("partial_rotary_factor") == 0.5
    assert rope.integer("original_max_position_embeddings") == 64
