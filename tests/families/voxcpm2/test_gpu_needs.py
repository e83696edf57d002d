"""What a checkpoint is said to take is what its parts take once they are there."""

import math
from pathlib import Path

import pytest
import torch

from antiphon.families.voxcpm2.audio_vae import VAEDecoder
from antiphon.families.voxcpm2.audio_vae_stages import vae_weights
from antiphon.families.voxcpm2.checkpoint import footprint, model_layout, model_part, vae_layout
from antiphon.families.voxcpm2.config import load_config
from antiphon.families.voxcpm2.language_model import VoxCPM2Model
from antiphon.families.voxcpm2.networks import NetworkBuilder
from antiphon.families.voxcpm2.sizes import make_checkpoint as make_files
from antiphon.nn.codec_layers.conv import CausalTransposedConv
from antiphon.nn.weights import open_weights


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_files(tmp_path, size="2b", dtype="bfloat16")
    return tmp_path


def test_memory_is_that_of_the_model(checkpoint: Path) -> None:
    config, told = load_config(checkpoint), footprint(checkpoint)
    part = model_part(checkpoint, config)
    with open_weights(part, like=torch.empty(0)) as weights:
        model = VoxCPM2Model(NetworkBuilder(weights), config, num_slots=1, max_positions=64)
    assert told.position_bytes == 2 * sum(shape.position_size for shape in model.kv_shapes)
    numbers = sum(math.prod(shape) for shape in part.layout.values())
    encoder, decoder = (
        sum(math.prod(shape) for name, shape in vae_layout(config.vae).items() if part in name)
        for part in ("encoder.", "decoder.")
    )
    assert told.weight_bytes == 2 * (numbers + decoder) + 4 * encoder


def test_a_frame_reads_the_language_models_once_and_the_flow_in_each_step(path: Path) -> None:
    layout, told = model_layout(load_config(path)), footprint(path)
    once, flow = (
        sum(
            math.prod(shape)
            for name, shape in layout.items()
            if name.endswith("proj.weight") and name.startswith(starts)
        )
        for starts in (("base_lm.", "residual_lm.", "feat_encoder."), "feat_decoder.")
    )
    layers = 2 * (once + 9 * flow)
    assert layers * 0.99 < told.read_bytes < 1.02 * layers
    assert told.frames_per_s == 6.25
    assert told.stream_flop > 22 * 9 * 2 * flow


def test_the_decoder_keeps_and_computes_what_its_layers_say(checkpoint: Path) -> None:
    config, told = load_config(checkpoint), footprint(checkpoint)
    weights = vae_weights(checkpoint, config.vae, "decoder.", like=torch.empty(0))
    decoder = VAEDecoder.of(weights, config)
    num_columns, flop = config.patch_size, 0
    for conv in decoder.first:
        flop += conv.weight.numel() * num_columns
    for _, block in decoder.blocks:
        assert isinstance(block.upsample, CausalTransposedConv)
        flop += block.upsample.linear.weight.numel() * num_columns
        num_columns *= block.upsample.stride
        flop += sum(each.weight.numel() for unit in block.units for each in unit.convs) * (
            num_columns
        )
    flop += decoder.last_conv.weight.numel() * num_columns
    assert told.decoder_flop == 2 * flop
    assert num_columns == config.samples_per_frame
