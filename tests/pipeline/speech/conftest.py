"""Models that tests of speech share."""

from collections.abc import AsyncGenerator

import pytest

from antiphon.pipeline.speech.service import Speech
from tests.speeches import loaded


@pytest.fixture(scope="module")
async def toy() -> AsyncGenerator[Speech, None]:
    async with loaded("toy") as speech:
        yield speech
