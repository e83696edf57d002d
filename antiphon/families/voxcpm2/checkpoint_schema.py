"""Names and shapes of a checkpoint's tensors, as a function of its configuration."""

import re
from collections.abc import Iterator

from antiphon.families.voxcpm2.config import AudioVAEConfig, VoxCPM2Config
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.safetensors_index import Shape

MODEL_OTHERS = r"audio_vae\..*"
"""An AudioVAE beside the model, which is read from its own file."""
VAE_STEM = "audiovae"
VAE_OTHERS = r"decoder\.sr_bin_boundaries"
"""Repeats what the configuration says."""
ENCODER_UNUSED = r"encoder\.fc_logvar\..*"
NUM_UNITS = 3
"""Residual units of a block of the AudioVAE, dilated by 1, 3 and 9."""
_KERNEL, _LATENT_KERNEL = 7, 3
_TRANSPOSED = re.compile(r"decoder\.model\.\d+\.block\.1")


def model_layout(config: VoxCPM2Config) -> dict[str, Shape]:
    """Return what model.safetensors holds."""
    width, latent = config.base.hidden_size, config.feature_size
    encoder, flow, narrow = (
        config.encoder.hidden_size,
        config.flow.hidden_size,
        config.bottleneck_size,
    )
    estimator = "feat_decoder.estimator"
    layout: dict[str, Shape] = {"base_lm.embed_tokens.weight": (config.vocab_size, width)}
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
        layout |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    layout["stop_head.weight"] = (2, width)
    return layout


def vae_layout(config: AudioVAEConfig) -> dict[str, Shape]:
    """Return what audiovae.safetensors or audiovae.pth holds, without `VAE_OTHERS`."""
    layout: dict[str, Shape] = {}
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
    """Return the decoder's blocks: place among its layers, rate, channels that enter."""
    first = 2 if config.depthwise else 1
    return [
        (first + number, rate, config.decoder_dim // 2**number)
        for number, rate in enumerate(config.decoder_rates)
    ]


def encoder_blocks(config: AudioVAEConfig) -> list[tuple[int, int, int]]:
    """Return the encoder's blocks: place among its layers, rate, channels that enter."""
    return [
        (1 + number, rate, config.encoder_dim * 2**number)
        for number, rate in enumerate(config.encoder_rates)
    ]


def _transformer(name: str, sizes: TransformerConfig) -> dict[str, Shape]:
    width, inner = sizes.hidden_size, sizes.intermediate_size
    queries, keys = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
    layer: dict[str, Shape] = {
        "self_attn.q_proj.weight": (queries, width),
        "self_attn.k_proj.weight": (keys, width),
        "self_attn.v_proj.weight": (keys, width),
        "self_attn.o_proj.weight": (width, queries),
        "mlp.gate_proj.weight": (inner, width),
        "mlp.up_proj.weight": (inner, width),
        "mlp.down_proj.weight": (width, inner),
        "input_layernorm.weight": (width,),
        "post_attention_layernorm.weight": (width,),
    }
    layout: dict[str, Shape] = {f"{name}.norm.weight": (width,)}
    for index in range(sizes.num_layers):
        layout |= {f"{name}.layers.{index}.{part}": shape for part, shape in layer.items()}
    return layout


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
    """Return the place of the decoder's last snake, before its last convolution; its channels."""
    index, _, channels = decoder_blocks(config)[-1]
    return index + 1, channels // 2
