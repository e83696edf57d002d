"""GPU memory, traffic and arithmetic of a checkpoint, from its configuration."""

import math
from collections.abc import Mapping
from pathlib import Path

from antiphon.contracts.family import Product
from antiphon.contracts.inspection import Footprint
from antiphon.families.kit.footprints import (
    FLOAT_BYTES,
    HALF_BYTES,
    num_values,
    read_bytes,
    stream_flop,
)
from antiphon.families.voxcpm2.checkpoint import (
    decoder_blocks,
    last_layer,
    model_layout,
    vae_layout,
)
from antiphon.families.voxcpm2.config import DEFAULT_STEPS, VoxCPM2Config, load_config
from antiphon.nn.safetensors_index import Shape

_PROMPT_POSITIONS = 40  # per sentence
_LAUNCHES_A_LAYER = 5  # four products, and attention with rotary embedding
_ENDS_LAUNCHES = 140  # per frame outside of layers; a third of them in the AudioVAE
_DILATIONS = (1, 3, 9)

# From docs/performance.md, by width of the language model: the published size.
_MEASURED_MS = {2048: {"H200": {1: 5.30, 8: 7.50, 64: 17.28}}}


def footprint(path: Path) -> Footprint:
    """Return the GPU requirements of a checkpoint's directory; reads no tensor.

    Raises:
        ModelLoadError: the configuration cannot be read.
    """
    config = load_config(path)
    products, vae = frame_products(path), vae_layout(config.vae)
    halves = [*model_layout(config).values()]
    halves += [shape for name, shape in vae.items() if name.startswith("decoder.")]
    encoder = [shape for name, shape in vae.items() if name.startswith("encoder.")]
    return Footprint(
        weight_bytes=HALF_BYTES * num_values(halves) + FLOAT_BYTES * num_values(encoder),
        read_bytes=read_bytes(products),
        stream_flop=stream_flop(products),
        decoder_flop=_decoder_flop(config, vae),
        position_bytes=HALF_BYTES * config.position_size,
        slot_bytes=_slot_bytes(config),
        num_launches=_num_launches(config),
        frames_per_s=config.vae.out_sample_rate / config.samples_per_frame,
        prompt_positions=_PROMPT_POSITIONS,
        measured_ms=_MEASURED_MS.get(config.base.hidden_size, {}),
    )


def frame_products(path: Path) -> list[Product]:
    """Return the matrix products of one frame, in order, with the usual number of steps.

    The flow runs twice in each step except the skipped first one.
    """
    config = load_config(path)
    width, flow = config.base.hidden_size, config.flow.hidden_size
    narrow, latent = config.bottleneck_size, config.feature_size
    num_positions = 3 + 2 * config.patch_size
    products = [
        *config.base.products("base."),
        Product("quantizer.in", narrow, width),
        Product("quantizer.out", width, narrow),
        Product("join", width, 2 * width),
        *config.residual.products("residual."),
        Product("stop", width, width),
        Product("to flow", 2 * flow, width),
    ]
    for _ in range(DEFAULT_STEPS - 1):
        products.append(Product("flow.in", flow, latent, 2 * config.patch_size))
        products += config.flow.products("flow.", 2 * num_positions)
        products.append(Product("flow.out", latent, flow, 2 * config.patch_size))
    products.append(Product("encoder.in", config.encoder.hidden_size, latent, config.patch_size))
    products += config.encoder.products("encoder.", 1 + config.patch_size)
    return [*products, Product("from encoder", width, config.encoder.hidden_size)]


def _num_launches(config: VoxCPM2Config) -> int:
    num_layers = config.base.num_layers + config.residual.num_layers + config.encoder.num_layers
    num_layers += (DEFAULT_STEPS - 1) * config.flow.num_layers
    return _LAUNCHES_A_LAYER * num_layers + _ENDS_LAUNCHES


def _decoder_flop(config: VoxCPM2Config, vae: Mapping[str, Shape]) -> int:
    """Return the additions and multiplications of the AudioVAE's decoder per frame.

    Each weight is multiplied once per column that its convolution is applied to.
    """
    blocks = {f"decoder.model.{index}": rate for index, rate, _ in decoder_blocks(config.vae)}
    flop, num_columns, block = 0, config.patch_size, ""
    for name, shape in vae.items():
        if not (name.startswith("decoder.model.") and name.endswith("weight_v")):
            continue
        flop += 2 * math.prod(shape) * num_columns
        found = ".".join(name.split(".")[:3])
        if found in blocks and found != block:  # a block starts with its upsampling
            block, num_columns = found, num_columns * blocks[found]
    return flop


def _slot_bytes(config: VoxCPM2Config) -> int:
    """Return the AudioVAE's memory per stream: columns before each convolution."""
    vae = config.vae
    _, last_channels = last_layer(vae)
    kept = 6 * (vae.latent_dim + last_channels)
    for _, _, channels in decoder_blocks(vae):
        kept += channels + 6 * sum(_DILATIONS) * (channels // 2)
    return FLOAT_BYTES * kept  # two copies in float16
