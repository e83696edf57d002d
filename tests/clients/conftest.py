"""Other people's clients leave sockets to the garbage collector; ours do not."""

import gc
import warnings
from collections.abc import Generator

import pytest


@pytest.fixture(autouse=True)
def sweep_up(request: pytest.FixtureRequest) -> Generator[None, None, None]:
    """Collect what a foreign client has left open before its warning meets another test."""
    yield
    if request.node.get_closest_marker("clients") is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()
