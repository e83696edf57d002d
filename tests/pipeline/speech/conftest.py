"""Models that tests of speech share."""

from collections.abc import Iterator

import pytest

from tests.speeches import KeptSpeech, kept


@pytest.fixture(scope="module")
def toy() -> Iterator[KeptSpeech]:
    """The toy family."""
    with kept("toy") as speech:
        yield speech
