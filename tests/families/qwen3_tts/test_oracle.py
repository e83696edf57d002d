"""Runs the official package itself, where its environment has been set up.

python tests/families/qwen3_tts/oracle/setup_oracle.py DIRECTORY
QWEN3_TTS_ORACLE=DIRECTORY pytest tests/families/qwen3_tts/test_oracle.py
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from antiphon.families.qwen3_tts.checkpoint import codec_layout, main_layout
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from tests.families.qwen3_tts.oracle.cases import CHECKPOINTS, SPOKEN_CASES
from tests.families.qwen3_tts.oracle.refresh import FIXTURES, official_layout, run_in_oracle
from tests.families.qwen3_tts.parity import make_parity_checkpoint
from tests.families.qwen3_tts.random_checkpoint import Size, write_all_but_weights

ORACLE = os.environ.get("QWEN3_TTS_ORACLE")
pytestmark = pytest.mark.skipif(ORACLE is None, reason="needs QWEN3_TTS_ORACLE")


@pytest.fixture
def oracle() -> Path:
    assert ORACLE is not None
    return Path(ORACLE)


@pytest.mark.parametrize("size", ["tiny", "tiny-0.6b", "0.6b", "1.7b"])
@pytest.mark.parametrize("task", CheckpointTask)
def test_names_and_shapes_are_those_of_the_official_modules(
    oracle: Path, tmp_path: Path, size: Size, task: CheckpointTask
) -> None:
    official = official_layout(oracle, tmp_path, size, task)
    config = load_config(tmp_path)
    for part, layout in (("main", main_layout(config)), ("codec", codec_layout(config))):
        assert layout == {name: tuple(shape) for name, shape in official[part].items()}


@pytest.mark.slow
def test_recorded_speech_is_what_the_official_package_says(
    oracle: Path, tmp_path: Path, parity_checkpoint: Callable[[str], Path]
) -> None:
    for name in CHECKPOINTS:
        make_parity_checkpoint(tmp_path / name, name)
    run_in_oracle(oracle, "record.py", tmp_path, tmp_path / "parity.npz")
    with np.load(FIXTURES / "parity.npz") as kept, np.load(tmp_path / "parity.npz") as new:
        assert set(kept) == set(new)
        for name in kept:
            np.testing.assert_allclose(new[name], kept[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_recorded_texts_are_spoken_so_by_the_official_package(oracle: Path, tmp_path: Path) -> None:
    make_parity_checkpoint(tmp_path / "custom", "custom")
    run_in_oracle(oracle, "record_spoken.py", tmp_path, tmp_path / "spoken.npz")
    with np.load(FIXTURES / "spoken.npz") as kept, np.load(tmp_path / "spoken.npz") as new:
        assert set(kept) == set(new) == {case.id for case in SPOKEN_CASES}
        for name in kept:
            assert np.array_equal(new[name], kept[name]), name


def test_recorded_ids_are_those_of_the_official_processor(oracle: Path, tmp_path: Path) -> None:
    write_all_but_weights(tmp_path, size="tiny", task="base", vocabulary="full", dtype="float32")
    ids = json.loads(run_in_oracle(oracle, "record_tokens.py", tmp_path).splitlines()[-1])
    assert ids == json.loads((FIXTURES / "tokens.json").read_text(encoding="utf-8"))
