"""Predictors of the published sizes are served by the program that stays on the device."""

from pathlib import Path

import pytest
import torch

from antiphon.families.qwen3_tts.checkpoint import main_layout
from antiphon.families.qwen3_tts.talker import Talker, load_predictor
from antiphon.nn.cuda import inner_codes
from tests.families.qwen3_tts.random_checkpoint import Size, write_all_but_weights


@pytest.mark.parametrize("size", ["1.7b", "0.6b"])
def test_published_sizes_are_served(
    size: Size, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_all_but_weights(tmp_path, size=size, task="custom_voice", dtype="bfloat16")
    weights = {
        name: torch.zeros(shape, dtype=torch.bfloat16, device="meta")
        for name, shape in main_layout(config).items()
    }
    talker = Talker.of(weights, config.talker, 64)
    predictor = load_predictor(weights, config.predictor, talker.frame_table)
    monkeypatch.setattr(inner_codes, "runs_on", lambda *_: True)
    assert inner_codes.is_served(predictor.transformer, predictor.heads, predictor.tables)
