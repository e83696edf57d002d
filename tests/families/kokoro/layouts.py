"""Further layouts of this family's checkpoints, for the conformance suite, by name."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from antiphon.families.kokoro.sizes import VOICES
from tests.families.kokoro.random_vocabulary import VOCABULARY

HERE = Path(__file__).parent


def make_export(path: Path, network: str = "tiny_noisy.onnx") -> None:
    """Write a checkpoint in the layout of the ONNX export into an empty directory."""
    (path / "onnx").mkdir()
    (path / "voices").mkdir()
    (path / "onnx" / "model.onnx").write_bytes((HERE / network).read_bytes())
    config = {"model_type": "style_text_to_speech_2"}
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tokenizer = {"model": {"vocab": {"$": 0, **VOCABULARY}}}
    (path / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    for number, voice in enumerate(VOICES):
        rows = np.full((510, 1, 256), 0.05 * number, "<f4")
        rows.tofile(path / "voices" / f"{voice}.bin")


LAYOUTS: Mapping[str, Callable[[Path], None]] = {"onnx": make_export}
