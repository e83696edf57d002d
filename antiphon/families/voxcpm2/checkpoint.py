"""Layout and inspection of a checkpoint's tensors, and GPU requirements derived from them."""

import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from antiphon.contracts.family import Product
from antiphon.contracts.inspection import Footprint, Inspection
from antiphon.families.kit.checkpoint import Findings, by_prefix, components, num_parameters
from antiphon.families.kit.layouts import (
    FLOAT_BYTES,
    HALF_BYTES,
    Layout,
    affine,
    num_values,
    read_bytes,
    stream_flop,
    transformer,
)
from antiphon.families.voxcpm2.config import (
    DEFAULT_STEPS,
    AudioVAEConfig,
    VoxCPM2Config,
    load_config,
)
from antiphon.nn.safetensors_index import STEM, Shape, WeightsPart

_MODEL_OTHERS = r"audio_vae\..*"
"""Tensors of an embedded AudioVAE, which is read from its own file instead."""
VAE_STEM = "audiovae"
VAE_OTHERS = r"decoder\.sr_bin_boundaries"
"""Tensor that repeats the configuration."""
_ENCODER_UNUSED = r"encoder\.fc_logvar\..*"
NUM_UNITS = 3
"""Residual units per block of the AudioVAE, with dilations 1, 3 and 9."""
PTH = f"{VAE_STEM}.pth"
_KERNEL, _LATENT_KERNEL, _CONV_AXES = 7, 3, 3
_TRANSPOSED = re.compile(r"decoder\.model\.\d+\.block\.1")
_PARTS = {
    "base_lm.": "language model",
    "residual_lm.": "residual model",
    "feat_encoder.": "patch encoder",
    "feat_decoder.": "flow",
    "encoder.": "AudioVAE encoder",
    "decoder.": "AudioVAE decoder",
}
_PROMPT_POSITIONS = 40  # per sentence
_LAUNCHES_A_LAYER = 5  # four products, and attention with rotary embedding
_ENDS_LAUNCHES = 140  # per frame outside of layers; a third of them in the AudioVAE
# From docs/performance.md, by width of the language model: the published size.
_MEASURED_MS = {2048: {"H200": {1: 5.30, 8: 7.50, 64: 17.28}}}


def inspect(path: Path) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not."""
    found = Findings.of(path)
    config = found.attempt(lambda: load_config(path))
    parts = [(STEM, _MODEL_OTHERS, model_layout(config) if config else None)]
    if not has_pth(path):
        parts.append((VAE_STEM, VAE_OTHERS, vae_layout(config.vae) if config else None))
    headers = []
    for stem, others, layout in parts:
        headers += found.tensors(path, layout, stem=stem, others=others)
    if config is not None and find_spec("tokenizers") is not None:
        from antiphon.families.voxcpm2.tokenizer import load_tokenizer

        found.attempt(partial(load_tokenizer, path, config.vocab_size))
    facts = {
        **(_facts(config) if config else {}),
        "Parameters": num_parameters(headers),
        "AudioVAE": f"{PTH}, which only loading looks into" if has_pth(path) else "safetensors",
    }
    return found.inspection(facts, components(by_prefix(headers, _PARTS, "between them")))


def has_pth(path: Path) -> bool:
    """Return whether the AudioVAE is read from the published PyTorch file."""
    return (path / PTH).is_file() and not (path / f"{VAE_STEM}.safetensors").is_file()


def _facts(config: VoxCPM2Config) -> dict[str, str | int]:
    base, flow, rate_hz = config.base, config.flow, config.vae.out_sample_rate
    return {
        "Task": "speech with designed and cloned voices",
        "Language model": f"{base.num_layers} layers of width {base.hidden_size}, then"
        f" {config.residual.num_layers}",
        "Flow": f"{flow.num_layers} layers of width {flow.hidden_size} over"
        f" {config.patch_size} latents of {config.feature_size}",
        "Audio": f"{rate_hz} Hz, {rate_hz / config.samples_per_frame:g} frames a second",
        "Context": f"{config.max_positions} positions of text and frames",
        "Vocabulary": config.vocab_size,
        "A position's cache": f"{config.position_size * 2} bytes in 16 bits",
    }


def model_part(path: Path, config: VoxCPM2Config) -> WeightsPart:
    """Return the language models, the flow and the patch encoder in a checkpoint's directory."""
    return WeightsPart(directory=path, layout=model_layout(config), others=_MODEL_OTHERS)


def vae_part(path: Path, config: AudioVAEConfig, prefix: str) -> WeightsPart:
    """Return the AudioVAE's encoder or decoder, by the prefix of its names."""
    return WeightsPart(
        directory=path,
        layout=vae_layout(config),
        prefix=prefix,
        unused=_ENCODER_UNUSED,
        others=VAE_OTHERS,
        stem=VAE_STEM,
    )


def model_layout(config: VoxCPM2Config) -> Layout:
    width, latent = config.base.hidden_size, config.feature_size
    encoder, flow = config.encoder.hidden_size, config.flow.hidden_size
    narrow = config.bottleneck_size
    estimator = "feat_decoder.estimator"
    layout: Layout = {"base_lm.embed_tokens.weight": (config.vocab_size, width)}
    layout |= transformer("base_lm", config.base) | transformer("residual_lm", config.residual)
    layout |= transformer("feat_encoder.encoder", config.encoder)
    layout |= transformer(f"{estimator}.decoder", config.flow)
    layout["feat_encoder.special_token"] = (1, 1, 1, encoder)
    linears = {
        "feat_encoder.in_proj": (encoder, latent),
        f"{estimator}.in_proj": (flow, latent),
        f"{estimator}.cond_proj": (flow, latent),
        f"{estimator}.out_proj": (latent, flow),
        f"{estimator}.time_mlp.linear_1": (flow, flow),
        f"{estimator}.time_mlp.linear_2": (flow, flow),
        f"{estimator}.delta_time_mlp.linear_1": (flow, flow),
        f"{estimator}.delta_time_mlp.linear_2": (flow, flow),
        "fsq_layer.in_proj": (narrow, width),
        "fsq_layer.out_proj": (width, narrow),
        "enc_to_lm_proj": (width, encoder),
        "lm_to_dit_proj": (flow, width),
        "res_to_dit_proj": (flow, width),
        "fusion_concat_proj": (width, 2 * width),
        "stop_proj": (width, width),
    }
    for name, shape in linears.items():
        layout |= affine(name, *shape)
    layout["stop_head.weight"] = (2, width)
    return layout


def vae_layout(config: AudioVAEConfig) -> Layout:
    """Return the layout of audiovae.safetensors or audiovae.pth, without `VAE_OTHERS`."""
    layers = [*_encoder_layers(config), *_decoder_layers(config)]
    layout: Layout = {}
    for name, shape in layers:
        if len(shape) == _CONV_AXES:
            num_out = shape[1] if _TRANSPOSED.fullmatch(name) else shape[0]
            layout |= {f"{name}.weight_g": (shape[0], 1, 1), f"{name}.weight_v": shape}
            layout[f"{name}.bias"] = (num_out,)
    layout |= {f"{name}.alpha": (1, *shape, 1) for name, shape in layers if len(shape) == 1}
    for index, _, channels in decoder_blocks(config):
        for part in ("scale", "bias"):
            name = f"decoder.sr_cond_model.{index}.{part}_embed.weight"
            layout[name] = (config.num_sample_rate_bins, channels)
    return layout


def decoder_blocks(config: AudioVAEConfig) -> list[tuple[int, int, int]]:
    """Return the layer index, rate and input channels of the decoder's blocks."""
    return [
        (2 + number, rate, config.decoder_dim // 2**number)
        for number, rate in enumerate(config.decoder_rates)
    ]


def encoder_blocks(config: AudioVAEConfig) -> list[tuple[int, int, int]]:
    """Return the layer index, rate and input channels of the encoder's blocks."""
    return [
        (1 + number, rate, config.encoder_dim * 2**number)
        for number, rate in enumerate(config.encoder_rates)
    ]


def _encoder_layers(config: AudioVAEConfig) -> Iterator[tuple[str, Shape]]:
    """Yield convolutions with the shapes of their weights, and snakes with their channels."""
    yield "encoder.block.0", (config.encoder_dim, 1, _KERNEL)
    for index, rate, channels in encoder_blocks(config):
        name = f"encoder.block.{index}.block"
        yield from _units(name, range(NUM_UNITS), channels)
        yield f"{name}.{NUM_UNITS}", (channels,)
        yield f"{name}.{NUM_UNITS + 1}", (2 * channels, channels, 2 * rate)
    widest = config.encoder_dim * 2 ** len(config.encoder_rates)
    for part in ("fc_mu", "fc_logvar"):
        yield f"encoder.{part}", (config.latent_dim, widest, _LATENT_KERNEL)


def _decoder_layers(config: AudioVAEConfig) -> Iterator[tuple[str, Shape]]:
    """Yield the layers of the decoder; see `_encoder_layers`."""
    yield "decoder.model.0", (config.latent_dim, 1, _KERNEL)
    yield "decoder.model.1", (config.decoder_dim, config.latent_dim, 1)
    for index, rate, channels in decoder_blocks(config):
        name = f"decoder.model.{index}.block"
        yield f"{name}.0", (channels,)
        yield f"{name}.1", (channels, channels // 2, 2 * rate)
        yield from _units(name, range(2, 2 + NUM_UNITS), channels // 2)
    last, channels = last_layer(config)
    yield f"decoder.model.{last}", (channels,)
    yield f"decoder.model.{last + 1}", (1, channels, _KERNEL)


def _units(name: str, numbers: range, channels: int) -> Iterator[tuple[str, Shape]]:
    for unit in numbers:
        yield f"{name}.{unit}.block.0", (channels,)
        yield f"{name}.{unit}.block.1", (channels, 1, _KERNEL)
        yield f"{name}.{unit}.block.2", (channels,)
        yield f"{name}.{unit}.block.3", (channels, channels, 1)


def last_layer(config: AudioVAEConfig) -> tuple[int, int]:
    """Return the layer index and the channels of the decoder's last snake."""
    index, _, channels = decoder_blocks(config)[-1]
    return index + 1, channels // 2


def footprint(path: Path) -> Footprint:
    """Return the GPU requirements of a checkpoint's directory; raises ModelLoadError."""
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
