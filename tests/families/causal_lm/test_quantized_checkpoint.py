"""Quantized checkpoints are inspected, loaded and quantised again like others."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from antiphon.contracts.family import LoadContext
from antiphon.families.causal_lm.checkpoint import inspect, model_part
from antiphon.families.causal_lm.config import load_config
from antiphon.families.causal_lm.language_model import load_runner
from antiphon.families.causal_lm.prompt import CausalLMPrompter
from antiphon.nn.weights import open_weights
from tests.engine.drive import tokens_of
from tests.families.causal_lm.answers import greedy
from tests.nn.quantized.packers import awq, pack_checkpoint

AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "modules_to_not_convert": ["down_proj"]}


@pytest.fixture(scope="module")
def folder(checkpoint_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint in AWQ, one projection of each layer left out."""
    path = tmp_path_factory.mktemp("awq") / "model"
    pack_checkpoint(checkpoint_of("qwen2"), path, awq, AWQ, left="down_proj.weight")
    return path


def test_it_is_inspected_as_what_it_is(folder: Path, checkpoint_of: Callable[[str], Path]) -> None:
    found, plain = inspect(folder), inspect(checkpoint_of("qwen2"))
    assert found.problems == ()
    assert found.facts["Parameters"] == plain.facts["Parameters"]
    (_, _, num_bytes, dtypes), (_, _, num_plain, _) = (
        found.tables[0].rows[0],
        plain.tables[0].rows[0],
    )
    assert "int4 (AWQ)" in str(dtypes)
    assert int(num_bytes) < int(num_plain)


def test_answers_are_those_of_the_unpacked_weights(folder: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    shutil.copytree(folder, plain)
    with open_weights(model_part(folder, load_config(folder)), like=torch.empty(0)) as weights:
        save_file({name: weights[name] for name in weights}, plain / "model.safetensors")
    values = json.loads((plain / "config.json").read_text())
    del values["quantization_config"]
    (plain / "config.json").write_text(json.dumps(values))
    for quantize in (None, "int8"):
        assert answer_of(folder, quantize) == answer_of(plain, quantize)


def answer_of(path: Path, quantize: str | None) -> list[int]:
    context = LoadContext(path=path, device="cpu", max_slots=1, quantize=quantize)
    prompt = greedy(CausalLMPrompter(context), "Why?", max_tokens=12)
    return tokens_of(load_runner(context), {0: prompt})[0]
