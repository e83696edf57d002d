"""Tiny checkpoints of both layouts: the original weights, and an ONNX export."""

from pathlib import Path

import pytest

from tests.families.kokoro.layouts import make_export
from tests.families.kokoro.random_checkpoint import make_checkpoint


@pytest.fixture(scope="session")
def official(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of random weights in the official layout."""
    path = tmp_path_factory.mktemp("official")
    make_checkpoint(path, size="tiny")
    return path


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint in the layout of the ONNX export."""
    path = tmp_path_factory.mktemp("exported")
    make_export(path, "tiny.onnx")
    return path
