"""Tiny checkpoints of both layouts: the original weights, and an ONNX export."""

import json
from pathlib import Path

import numpy as np
import pytest

from antiphon.models.kokoro.random_checkpoint import VOICES, make_checkpoint
from antiphon.models.kokoro.random_vocabulary import VOCABULARY

TINY_ONNX = Path(__file__).parent / "tiny.onnx"


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
    (path / "onnx").mkdir()
    (path / "voices").mkdir()
    (path / "onnx" / "model.onnx").write_bytes(TINY_ONNX.read_bytes())
    config = {"model_type": "style_text_to_speech_2"}
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tokenizer = {"model": {"vocab": {"$": 0, **VOCABULARY}}}
    (path / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    for number, voice in enumerate(VOICES):
        rows = np.full((510, 1, 256), 0.05 * number, "<f4")
        rows.tofile(path / "voices" / f"{voice}.bin")
    return path
