"""What a checkpoint is said to take is what its parts take once they are there."""

import math
from pathlib import Path

import pytest
import torch

from antiphon.families.qwen3_tts.checkpoint import codec_layout, main_layout
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.footprint import footprint
from antiphon.families.qwen3_tts.language_model import LanguageModel
from antiphon.families.qwen3_tts.talker import Talker, load_predictor
from antiphon.placement.cards import card_of
from antiphon.placement.fit import fit
from tests.families.qwen3_tts.random_checkpoint import Size, write_all_but_weights

META = torch.device("meta")


@pytest.fixture(params=["1.7b", "0.6b"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    size: Size = request.param
    write_all_but_weights(tmp_path, size=size, task="custom_voice", dtype="bfloat16")
    return tmp_path


def test_memory_is_that_of_a_model_without_numbers(path: Path) -> None:
    config, told = load_config(path), footprint(path)
    weights = {
        name: torch.empty(shape, dtype=torch.bfloat16, device=META)
        for name, shape in (main_layout(config) | codec_layout(config)).items()
    }
    talker = Talker.of(weights, config.talker, 512)
    predictor = load_predictor(weights, config.predictor, talker.frame_table)
    model = LanguageModel(config, talker, predictor, num_slots=1, max_positions=512)
    (shape,) = model.kv_shapes
    assert told.position_bytes == 2 * shape.position_size
    layers = sum(
        math.prod(shape) for name, shape in main_layout(config).items() if ".layers." in name
    )
    tables = [talker.text_table, talker.frame_table.rows, talker.head.weight]
    tables += [head.weight for head in predictor.heads]
    if predictor.projection is not None:
        tables += predictor.tables
    decoder = sum(
        weights[name].numel() for name in codec_layout(config) if name.startswith("decoder.")
    )
    expected = 2 * (layers + sum(table.numel() for table in tables) + decoder)
    assert told.weight_bytes == pytest.approx(expected, rel=0.01)


def test_a_frame_reads_the_talker_once_and_the_predictor_for_each_further_group(path: Path) -> None:
    config, told = load_config(path), footprint(path)
    once, often = (
        sum(
            math.prod(shape)
            for name, shape in main_layout(config).items()
            if name.startswith(start) and name.endswith("proj.weight")
        )
        for start in ("talker.model.layers.", "talker.code_predictor.model.layers.")
    )
    layers = 2 * (once + often * (config.predictor.num_groups - 1))
    assert layers < told.read_bytes < 1.05 * layers
    assert told.stream_flop > told.read_bytes
    assert told.frames_per_s == 12.5
    # Of fifteen passes: products and an attention in each of five layers, a head, and a draw.
    assert told.num_resident == 15 * (5 * 5 + 2)


def test_the_decoder_multiplies_as_often_as_it_was_counted(path: Path) -> None:
    assert footprint(path).decoder_flop == pytest.approx(4.96e9, rel=0.01)  # 62 GFLOP a second


def test_estimates_are_near_what_was_measured(path: Path) -> None:
    told = footprint(path)
    for name, by_streams in told.measured_ms.items():
        found = fit(told, card_of(name), 8.0, tuple(by_streams))  # streams of 100 frames
        for speed in found.speeds:
            assert speed.frame_ms == pytest.approx(speed.measured_ms, rel=0.2), speed
