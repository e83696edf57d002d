"""Random weights depend on seed, name and place only."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.nn.random_weights import random_values


def test_values_are_the_same_on_every_machine() -> None:
    values = random_values("a.weight", (6,), 1.0)
    expected = [1.4271427, -0.66563845, -0.55198693, -0.079783775, 0.12115899, 0.0072425776]
    assert values.tolist() == np.array(expected, np.float32).tolist()


def test_values_have_the_shape_and_deviation_that_were_requested() -> None:
    values = random_values("x", (500, 250, 2), 0.3, seed=1)
    assert values.shape == (500, 250, 2)
    assert values.mean() == pytest.approx(0.0, abs=0.01)
    assert values.std() == pytest.approx(0.3, rel=0.01)
    assert np.abs(values).max() <= 0.3 * 3**0.5 + 1e-6


def test_seeds_and_names_differ() -> None:
    made = [random_values(name, (100,), 1.0, seed) for name in ("x", "y") for seed in (0, 1)]
    assert len({values.tobytes() for values in made}) == 4


@given(st.integers(1, 40), st.integers(1, 40))
def test_a_longer_tensor_begins_like_a_shorter_one(short: int, more: int) -> None:
    first = random_values("x", (short,), 1.0, seed=3)
    longer = random_values("x", (short + more,), 1.0, seed=3)
    assert longer[:short].tolist() == first.tolist()
