"""Layout and inspection of the tensors of talker and token2wav."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from antiphon.errors import ModelLoadError
from antiphon.families.causal_lm.omni.config import (
    SAMPLE_RATE_HZ,
    BigVGANConfig,
    FlowConfig,
    OmniConfig,
    has_voice,
    load_omni_config,
)
from antiphon.families.kit.checkpoint import Facts, Findings
from antiphon.families.kit.layouts import Layout, affine, ecapa, repeated, snake, transformer, under
from antiphon.nn.safetensors_index import TensorHeader, WeightsPart

FLOW = "token2wav.code2wav_dit_model"
VOCODER = "token2wav.code2wav_bigvgan_model"
_NOT_OF_TALKER = r"token2wav\..*|thinker\.(?!model\.embed_tokens\.).*|.*\.inv_freq"
"""Regular expression of tensor names that the talker does not read."""
_NOT_OF_TOKEN2WAV = r"talker\..*|thinker\..*|.*\.inv_freq|.*\.filter"
"""Regular expression of names unused by token2wav; filters follow from the configuration."""
TIME_SIZE = 256
"""Size of the flow's sinusoidal time embedding."""
PARTS = ("talker", "token2wav")
"""Components, which are the prefixes of their tensors."""


def inspect_voice(path: Path, headers: Mapping[str, TensorHeader], found: Findings) -> Facts | None:
    """Return facts of the voice, and report its problems to ``found``; ``None`` without a voice."""
    try:
        if not has_voice(path):
            return None
        config = load_omni_config(path)
    except ModelLoadError as error:
        found.problems.append(error.message)
        return {}
    for part in (talker_part(path, config), token2wav_part(path, config)) if headers else ():
        found.check_layout(path, headers, part.layout, part.others)
    sizes = config.talker.transformer
    talker = (
        f"{sizes.num_layers} layers of width {sizes.hidden_size},"
        f" {SAMPLE_RATE_HZ / config.samples_per_code:g} codes a second"
    )
    names = found.attempt(lambda: _names(path, config)) if find_spec("torch") else None
    return {"Talker": talker, **({} if names is None else {"Voices": names})}


def _names(path: Path, config: OmniConfig) -> tuple[str, ...]:
    from antiphon.families.causal_lm.omni.voices import load_voices

    return tuple(load_voices(path, config))


def talker_part(path: Path, config: OmniConfig) -> WeightsPart:
    """Return the talker in a checkpoint's directory, with the thinker's embedding."""
    return WeightsPart(directory=path, layout=talker_layout(config), others=_NOT_OF_TALKER)


def token2wav_part(path: Path, config: OmniConfig) -> WeightsPart:
    return WeightsPart(directory=path, layout=token2wav_layout(config), others=_NOT_OF_TOKEN2WAV)


def talker_layout(config: OmniConfig) -> Layout:
    talker = config.talker
    sizes, width = talker.transformer, talker.embedding_size
    hidden = sizes.hidden_size
    layout: Layout = {
        f"{config.thinker}model.embed_tokens.weight": (config.thinker_vocab, width),
        "talker.model.embed_tokens.weight": (talker.vocab_size, width),
        "talker.codec_head.weight": (talker.vocab_size, hidden),
        **affine("talker.thinker_to_talker_proj", hidden, width),
    }
    return layout | transformer("talker.model", sizes, "qkv")


def token2wav_layout(config: OmniConfig) -> Layout:
    return _flow_layout(config.flow) | _vocoder_layout(config.vocoder)


def _flow_layout(config: FlowConfig) -> Layout:
    width, inner = config.hidden_size, config.num_attention_heads * config.head_dim
    read = config.mel_dim + config.ecapa.embedding_size + config.enc_emb_dim + config.emb_dim
    layout: Layout = {
        **affine(f"{FLOW}.time_embed.time_mlp.0", width, TIME_SIZE),
        **affine(f"{FLOW}.time_embed.time_mlp.2", width, width),
        f"{FLOW}.text_embed.codec_embed.weight": (config.num_embeds + 1, config.emb_dim),
        **affine(f"{FLOW}.input_embed.proj", width, read),
        **affine(f"{FLOW}.norm_out.linear", 2 * width, width),
        **affine(f"{FLOW}.proj_out", config.mel_dim, width),
        **under(f"{FLOW}.input_embed.spk_encoder", ecapa(config.ecapa)),
    }
    layer = {
        **affine("attn_norm.linear", 6 * width, width),
        **affine("attn.to_q", inner, width),
        **affine("attn.to_k", inner, width),
        **affine("attn.to_v", inner, width),
        **affine("attn.to_out.0", width, inner),
        **affine("ff.ff.0", config.ff_mult * width, width),
        **affine("ff.ff.3", width, config.ff_mult * width),
    }
    return layout | repeated(f"{FLOW}.transformer_blocks", config.num_hidden_layers, layer)


def _vocoder_layout(config: BigVGANConfig) -> Layout:
    size = config.initial_channels
    layout = affine(f"{VOCODER}.conv_pre", size, config.mel_dim, 7)
    number = 0
    for index, kernel in enumerate(config.up_kernel_sizes):
        ups = f"{VOCODER}.ups.{index}.0"
        layout |= affine(ups, size, size // 2, kernel, num_outputs=size // 2)
        size //= 2
        for width, dilations in zip(config.kernel_sizes, config.dilations, strict=True):
            block = f"{VOCODER}.resblocks.{number}"
            for place in range(len(dilations)):
                layout |= affine(f"{block}.convs1.{place}", size, size, width)
                layout |= affine(f"{block}.convs2.{place}", size, size, width)
            for place in range(2 * len(dilations)):
                layout |= snake(f"{block}.activations.{place}.act", size)
            number += 1
    layout |= snake(f"{VOCODER}.activation_post.act", size)
    return layout | {f"{VOCODER}.conv_post.weight": (1, size, 7)}
