"""The worker of NVIDIA Dynamo, without Dynamo."""

import importlib
import sys
from collections.abc import Generator
from types import ModuleType

import pytest

from tests.fabric import dynamo_stand_in as dynamo


@pytest.fixture(scope="module")
def worker() -> Generator[ModuleType, None, None]:
    """The worker's module, with a stand-in for Dynamo."""
    name = "antiphon.fabric.dynamo_worker"
    with pytest.MonkeyPatch.context() as monkeypatch:
        dynamo.install(monkeypatch)
        yield importlib.import_module(name)
    del sys.modules[name]
