"""Layout and inspection of a checkpoint's tensors."""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from antiphon.contracts.inspection import Inspection
from antiphon.families.kit.checkpoint import (
    Findings,
    by_prefix,
    components,
    num_parameters,
)
from antiphon.families.kit.layouts import (
    Layout,
    affine,
    attention,
    gated_mlp,
    layer_norms,
    repeated,
    under,
)
from antiphon.families.voxcpm2.config import AudioVAEConfig, VoxCPM2Config, load_config
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.safetensors_index import STEM, Shape, TensorHeader

MODEL_OTHERS = r"audio_vae\..*"
"""Tensors of an embedded AudioVAE, which is read from its own file instead."""
VAE_STEM = "audiovae"
VAE_OTHERS = r"decoder\.sr_bin_boundaries"
"""Tensor that repeats the configuration."""
ENCODER_UNUSED = r"encoder\.fc_logvar\..*"
NUM_UNITS = 3
"""Residual units per block of the AudioVAE, with dilations 1, 3 and 9."""
_PTH = f"{VAE_STEM}.pth"
_KERNEL, _LATENT_KERNEL = 7, 3
_TRANSPOSED = re.compile(r"decoder\.model\.\d+\.block\.1")
_PARTS = {
    "base_lm.": "language model",
    "residual_lm.": "residual model",
    "feat_encoder.": "patch encoder",
    "feat_decoder.": "flow",
    "encoder.": "AudioVAE encoder",
    "decoder.": "AudioVAE decoder",
}


def inspect(path: Path) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not."""
    found = Findings()
    config = found.attempt(lambda: load_config(path))
    parts = [(STEM, MODEL_OTHERS, model_layout(config) if config else None)]
    has_pth = (path / _PTH).is_file() and not (path / f"{VAE_STEM}.safetensors").is_file()
    if not has_pth:
        parts.append((VAE_STEM, VAE_OTHERS, vae_layout(config.vae) if config else None))
    headers: list[TensorHeader] = []
    for stem, others, layout in parts:
        part = found.headers(path, stem=stem, others=others)
        if part is not None:
            found.check_dtypes(path, part.values())
            found.check_layout(path, part, layout)
            headers += part.values()
    if config is not None and find_spec("tokenizers") is not None:
        from antiphon.families.voxcpm2.tokenizer import load_tokenizer

        vocab_size = config.vocab_size
        found.attempt(lambda: load_tokenizer(path, vocab_size))
    facts = {
        **(_facts(config) if config else {}),
        "Parameters": num_parameters(headers),
        "AudioVAE": f"{_PTH}, which only loading looks into" if has_pth else "safetensors",
    }
    return found.inspection(facts, components(by_prefix(headers, _PARTS, "between them")))


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


def model_layout(config: VoxCPM2Config) -> Layout:
    """Return the layout of model.safetensors."""
    width, latent = config.base.hidden_size, config.feature_size
    encoder, flow, narrow = (
        config.encoder.hidden_size,
        config.flow.hidden_size,
        config.bottleneck_size,
    )
    estimator = "feat_decoder.estimator"
    layout: Layout = {"base_lm.embed_tokens.weight": (config.vocab_size, width)}
    layout |= _transformer("base_lm", config.base) | _transformer("residual_lm", config.residual)
    layout |= _transformer("feat_encoder.encoder", config.encoder)
    layout |= _transformer(f"{estimator}.decoder", config.flow)
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
    layout: Layout = {}
    for name, shape in (*_encoder_convs(config), *_decoder_convs(config)):
        num_out = shape[1] if _TRANSPOSED.fullmatch(name) else shape[0]
        layout |= {
            f"{name}.weight_g": (shape[0], 1, 1),
            f"{name}.weight_v": shape,
            f"{name}.bias": (num_out,),
        }
    for name, channels in (*_encoder_snakes(config), *_decoder_snakes(config)):
        layout[f"{name}.alpha"] = (1, channels, 1)
    if config.num_sample_rate_bins:
        for index, _, channels in decoder_blocks(config):
            for part in ("scale", "bias"):
                name = f"decoder.sr_cond_model.{index}.{part}_embed.weight"
                layout[name] = (config.num_sample_rate_bins, channels)
    return layout


def decoder_blocks(config: AudioVAEConfig) -> list[tuple[int, int, int]]:
    """Return the layer index, rate and input channels of the decoder's blocks."""
    first = 2 if config.depthwise else 1
    return [
        (first + number, rate, config.decoder_dim // 2**number)
        for number, rate in enumerate(config.decoder_rates)
    ]


def encoder_blocks(config: AudioVAEConfig) -> list[tuple[int, int, int]]:
    """Return the layer index, rate and input channels of the encoder's blocks."""
    return [
        (1 + number, rate, config.encoder_dim * 2**number)
        for number, rate in enumerate(config.encoder_rates)
    ]


def _transformer(name: str, sizes: TransformerConfig) -> Layout:
    layer = attention(sizes) | gated_mlp(sizes) | layer_norms(sizes)
    layout: Layout = {"norm.weight": (sizes.hidden_size,)}
    return under(name, layout | repeated("layers", sizes.num_layers, layer))


def _units(name: str, channels: int, *, depthwise: bool) -> Iterator[tuple[str, Shape]]:
    """Yield the convolutions of a residual unit."""
    yield f"{name}.block.1", (channels, 1 if depthwise else channels, _KERNEL)
    yield f"{name}.block.3", (channels, channels, 1)


def _encoder_convs(config: AudioVAEConfig) -> Iterator[tuple[str, Shape]]:
    yield "encoder.block.0", (config.encoder_dim, 1, _KERNEL)
    channels = config.encoder_dim
    for index, rate, channels in encoder_blocks(config):
        name = f"encoder.block.{index}.block"
        for unit in range(NUM_UNITS):
            yield from _units(f"{name}.{unit}", channels, depthwise=config.depthwise)
        yield f"{name}.{NUM_UNITS + 1}", (2 * channels, channels, 2 * rate)
    widest = config.encoder_dim * 2 ** len(config.encoder_rates)
    for part in ("fc_mu", "fc_logvar"):
        yield f"encoder.{part}", (config.latent_dim, widest, _LATENT_KERNEL)


def _encoder_snakes(config: AudioVAEConfig) -> Iterator[tuple[str, int]]:
    for index, _, channels in encoder_blocks(config):
        name = f"encoder.block.{index}.block"
        for unit in range(NUM_UNITS):
            yield f"{name}.{unit}.block.0", channels
            yield f"{name}.{unit}.block.2", channels
        yield f"{name}.{NUM_UNITS}", channels


def _decoder_convs(config: AudioVAEConfig) -> Iterator[tuple[str, Shape]]:
    latent, widest = config.latent_dim, config.decoder_dim
    if config.depthwise:
        yield "decoder.model.0", (latent, 1, _KERNEL)
        yield "decoder.model.1", (widest, latent, 1)
    else:
        yield "decoder.model.0", (widest, latent, _KERNEL)
    for index, rate, channels in decoder_blocks(config):
        name = f"decoder.model.{index}.block"
        yield f"{name}.1", (channels, channels // 2, 2 * rate)
        for unit in range(2, 2 + NUM_UNITS):
            yield from _units(f"{name}.{unit}", channels // 2, depthwise=config.depthwise)
    last, channels = last_layer(config)
    yield f"decoder.model.{last + 1}", (1, channels, _KERNEL)


def _decoder_snakes(config: AudioVAEConfig) -> Iterator[tuple[str, int]]:
    for index, _, channels in decoder_blocks(config):
        name = f"decoder.model.{index}.block"
        yield f"{name}.0", channels
        for unit in range(2, 2 + NUM_UNITS):
            yield f"{name}.{unit}.block.0", channels // 2
            yield f"{name}.{unit}.block.2", channels // 2
    last, channels = last_layer(config)
    yield f"decoder.model.{last}", channels


def last_layer(config: AudioVAEConfig) -> tuple[int, int]:
    """Return the layer index and the channels of the decoder's last snake."""
    index, _, channels = decoder_blocks(config)[-1]
    return index + 1, channels // 2
