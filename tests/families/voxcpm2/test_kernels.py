"""Steps by kernels: they compute what PyTorch lines do, and compile for a GPU that is not there."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.contracts.prompt import Prompt
from antiphon.families.voxcpm2.checkpoint import model_layout
from antiphon.families.voxcpm2.config import DEFAULT_STEPS, load_config
from antiphon.families.voxcpm2.flow import Flow, FlowInputs
from antiphon.families.voxcpm2.language_model import load_runner
from antiphon.families.voxcpm2.networks import NetworkBuilder, PatchEncoder
from antiphon.families.voxcpm2.prompt import VoxCPM2Prompter
from antiphon.families.voxcpm2.sizes import make_checkpoint as make_files
from antiphon.nn.precision import exact_float32
from tests.engine.drive import generate
from tests.families.voxcpm2.conftest import context_of
from tests.families.voxcpm2.speaking import ask, patches
from tests.kernels import why_not_here, with_kernels
from tests.nn.kernels.compiler import H200, compiling

META = torch.device("meta")


@pytest.fixture(scope="module")
def prompts(prompter: VoxCPM2Prompter) -> dict[int, Prompt]:
    return {
        0: ask(prompter, "One.", 1, inference_timesteps=2, cfg_value=1.0),
        3: ask(prompter, "Two.", 2, inference_timesteps=4),
    }


@pytest.mark.gpu
@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "they run here")
def test_patches_are_those_of_pytorch_lines(
    endless: Path, prompts: dict[int, Prompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(endless)
    wanted = generate(load_runner(context, max_positions=64), prompts, 2)
    context = with_kernels(context, monkeypatch)
    with exact_float32():
        runner = load_runner(context, is_batched=True, max_positions=64)
        spoken = generate(runner, prompts, 2)
    for slot, each in wanted.items():
        np.testing.assert_allclose(patches(spoken[slot]), patches(each), atol=1e-3)


@pytest.mark.slow  # it compiles
@pytest.mark.filterwarnings("ignore")  # Triton tells of changes to come
@pytest.mark.parametrize("is_batch_invariant", [False, True])
def test_a_patch_of_published_widths_compiles(
    is_batch_invariant: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_files(tmp_path, size="2b", dtype="bfloat16")
    config, compiler = load_config(tmp_path), compiling(monkeypatch, H200)
    flow_of_one, encoder_of_one = (
        replace(each, num_layers=1) for each in (config.flow, config.encoder)
    )
    config = replace(config, flow=flow_of_one, encoder=encoder_of_one)
    weights = {
        name: torch.zeros(shape, dtype=torch.bfloat16, device=META)
        for name, shape in model_layout(config).items()
    }
    builder = NetworkBuilder(weights, is_batch_invariant)
    flow, encoder = Flow.of(builder, config), PatchEncoder.of(builder, config)
    for num_rows in (1, 64):
        patches = torch.zeros(num_rows, config.patch_size, config.feature_size, device=META)
        conditions = patches.new_zeros(num_rows, 2, 1024, dtype=torch.bfloat16)
        schedules = torch.zeros(num_rows, dtype=torch.int64, device=META)
        guidance = torch.ones(num_rows, device=META)
        inputs = FlowInputs(patches, conditions, patches, guidance, schedules, DEFAULT_STEPS)
        made = flow.make(inputs)
        assert made.shape == patches.shape
        assert encoder(made).shape == (num_rows, config.encoder.hidden_size)
    assert {"_flow_step", "_attend_whole", "wide_product"} <= compiler.names
    assert not compiler.too_large()
