"""The worker of NVIDIA Dynamo, without Dynamo."""

import importlib
import sys
from collections.abc import Generator
from types import ModuleType

import pytest

from tests.dynamo import stand_in as dynamo


@pytest.fixture(scope="module")
def worker() -> Generator[ModuleType, None, None]:
    """The worker's module, with a stand-in for Dynamo."""
    name = "antiphon.dynamo.worker"
    with pytest.MonkeyPatch.context() as monkeypatch:
        dynamo.install(monkeypatch)
        yield importlib.import_module(name)
    del sys.modules[name]
