"""What tests of voices open is closed."""

from collections.abc import Generator

import pytest

from tests.voices.stores import OPENED


@pytest.fixture(autouse=True)
def _close_what_was_opened() -> Generator[None, None, None]:
    yield
    while OPENED:
        OPENED.pop().close()
