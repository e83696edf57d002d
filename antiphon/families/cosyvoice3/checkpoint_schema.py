"""Names and shapes of the tensors of llm.pt, flow.pt and hift.pt, by the configuration."""

from itertools import accumulate

from antiphon.families.cosyvoice3.config import (
    CosyVoice3Config,
    MelFlowConfig,
    VocoderConfig,
)
from antiphon.families.cosyvoice3.dit import CONV_GROUPS, CONV_KERNEL, TIME_SIZE
from antiphon.families.cosyvoice3.vocoder import PITCH_LOOK_AHEAD
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.safetensors_index import Shape

LANGUAGE_FILE, FLOW_FILE, VOCODER_FILE = "llm.pt", "flow.pt", "hift.pt"
TEXT_PREFIX = "llm.model.model"
LANGUAGE_UNUSED = r"llm\.model\.lm_head\.weight|.*\.rotary_emb\.inv_freq"
"""The head of text, which says nothing here."""
FLOW_UNUSED = r"decoder\.estimator\.rotary_embed\.inv_freq"
VOCODER_PREFIX = "generator."
"""Of names in files that training wrote, with a discriminator beside the vocoder."""
VOCODER_UNUSED = r"discriminator\..*|stft_window|mel_spec_transform.*"

_SPREAD = 2
"""Columns that each output of a strided convolution reads, in strides."""


def language_layout(config: CosyVoice3Config) -> dict[str, Shape]:
    """Return what llm.pt holds of the language model."""
    sizes = config.text
    width, num_ids = sizes.hidden_size, config.num_speech_ids
    layout: dict[str, Shape] = {
        f"{TEXT_PREFIX}.embed_tokens.weight": (config.text_vocab_size, width),
        f"{TEXT_PREFIX}.norm.weight": (width,),
        "speech_embedding.weight": (num_ids, width),
        "llm_decoder.weight": (num_ids, width),
    }
    for index in range(sizes.num_layers):
        for part, shape in _decoder_layer(sizes).items():
            layout[f"{TEXT_PREFIX}.layers.{index}.{part}"] = shape
    return layout


def _decoder_layer(sizes: TransformerConfig) -> dict[str, Shape]:
    width, inner = sizes.hidden_size, sizes.intermediate_size
    queries, keys = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
    return {
        "input_layernorm.weight": (width,),
        "post_attention_layernorm.weight": (width,),
        **_linear("self_attn.q_proj", queries, width),
        **_linear("self_attn.k_proj", keys, width),
        **_linear("self_attn.v_proj", keys, width),
        "self_attn.o_proj.weight": (width, queries),
        "mlp.gate_proj.weight": (inner, width),
        "mlp.up_proj.weight": (inner, width),
        "mlp.down_proj.weight": (width, inner),
    }


def flow_layout(config: MelFlowConfig) -> dict[str, Shape]:
    """Return what flow.pt holds."""
    mels, width, dit = config.num_mels, config.hidden_size, "decoder.estimator"
    ahead, kernel = config.look_ahead_channels, config.look_ahead_tokens + 1
    conv = f"{dit}.input_embed.conv_pos_embed"
    layout: dict[str, Shape] = {
        "input_embedding.weight": (config.num_tokens, mels),
        **_linear("spk_embed_affine_layer", mels, config.speaker_size),
        **_conv("pre_lookahead_layer.conv1", ahead, mels, kernel),
        **_conv("pre_lookahead_layer.conv2", mels, ahead, 3),
        **_linear(f"{dit}.time_embed.time_mlp.0", width, TIME_SIZE),
        **_linear(f"{dit}.time_embed.time_mlp.2", width, width),
        **_linear(f"{dit}.input_embed.proj", width, 4 * mels),
        **_conv(f"{conv}.conv1.0", width, width // CONV_GROUPS, CONV_KERNEL),
        **_conv(f"{conv}.conv2.0", width, width // CONV_GROUPS, CONV_KERNEL),
        **_linear(f"{dit}.norm_out.linear", 2 * width, width),
        **_linear(f"{dit}.proj_out", mels, width),
    }
    heads, inner = config.num_heads * config.head_dim, config.feed_forward_factor * width
    for index in range(config.num_layers):
        block = f"{dit}.transformer_blocks.{index}"
        layout |= _linear(f"{block}.attn_norm.linear", 6 * width, width)
        for part in "qkv":
            layout |= _linear(f"{block}.attn.to_{part}", heads, width)
        layout |= _linear(f"{block}.attn.to_out.0", width, heads)
        layout |= _linear(f"{block}.ff.ff.0.0", inner, width)
        layout |= _linear(f"{block}.ff.ff.2", width, inner)
    return layout


def vocoder_layout(config: VocoderConfig) -> dict[str, Shape]:
    """Return what hift.pt holds, its weights joined of direction and length."""
    channels, spectrum = config.base_channels, config.fft_size + 2
    pitch = config.pitch_channels
    layout: dict[str, Shape] = {
        **_linear("m_source.l_linear", 1, config.num_overtones + 1),
        **_conv("conv_pre", channels, config.num_mels, config.look_ahead_frames + 1),
        **_conv("f0_predictor.condnet.0", pitch, config.num_mels, PITCH_LOOK_AHEAD + 1),
        **_linear("f0_predictor.classifier", 1, pitch),
    }
    for index in (2, 4, 6, 8):
        layout |= _conv(f"f0_predictor.condnet.{index}", pitch, pitch, 3)
    rates = config.upsample_rates
    strides = [*accumulate((1, *rates[:0:-1]), lambda one, other: one * other)][::-1]
    num_blocks = len(config.kernel_sizes)
    for index, kernel in enumerate(config.upsample_kernel_sizes):
        layout |= _conv(f"ups.{index}", channels // 2, channels, kernel)
        channels //= 2
        spread = _SPREAD * strides[index] if strides[index] > 1 else 1
        layout |= _conv(f"source_downs.{index}", channels, spectrum, spread)
        layout |= _snake_block(
            f"source_resblocks.{index}",
            *(channels, config.source_kernel_sizes[index], len(config.source_dilations[index])),
        )
        for number, dilations in enumerate(config.dilations):
            block = f"resblocks.{index * num_blocks + number}"
            layout |= _snake_block(block, channels, config.kernel_sizes[number], len(dilations))
    return layout | _conv("conv_post", spectrum, channels, 7)


def _snake_block(name: str, channels: int, kernel: int, num_pairs: int) -> dict[str, Shape]:
    layout: dict[str, Shape] = {}
    for index in range(num_pairs):
        for part in ("1", "2"):
            layout |= _conv(f"{name}.convs{part}.{index}", channels, channels, kernel)
            layout[f"{name}.activations{part}.{index}.alpha"] = (channels,)
    return layout


def _linear(name: str, num_outputs: int, num_inputs: int) -> dict[str, Shape]:
    return {f"{name}.weight": (num_outputs, num_inputs), f"{name}.bias": (num_outputs,)}


def _conv(name: str, num_outputs: int, num_inputs: int, kernel: int) -> dict[str, Shape]:
    return {f"{name}.weight": (num_outputs, num_inputs, kernel), f"{name}.bias": (num_outputs,)}
