"""Layout of the tensors of llm.pt, flow.pt and hift.pt, and inspection of a checkpoint."""

from pathlib import Path

from antiphon.contracts.family import Product
from antiphon.contracts.inspection import Inspection, Table
from antiphon.families.cosyvoice3.config import (
    TEXT_FOLDER,
    CosyVoice3Config,
    MelFlowConfig,
    VocoderConfig,
    has_voice_encoder,
    load_config,
)
from antiphon.families.cosyvoice3.dit import CONV_GROUPS, CONV_KERNEL, TIME_SIZE
from antiphon.families.cosyvoice3.vocoder import PITCH_LOOK_AHEAD
from antiphon.families.kit.checkpoint import Facts, Findings, num_parameters
from antiphon.families.kit.formats.torch_file import TorchPart
from antiphon.families.kit.layouts import (
    FLOAT_BYTES,
    Layout,
    affine,
    num_values,
    repeated,
    transformer,
)

TEXT_PREFIX = "llm.model.model"
_TEXT_HEAD = r"llm\.model\.lm_head\.weight"  # speech does not use it
_SPREAD = 2
"""Columns read by each output of a strided convolution, in strides."""


def language_part(path: Path, config: CosyVoice3Config) -> TorchPart:
    """Return the language model in a checkpoint's directory."""
    unused = rf"{_TEXT_HEAD}|.*\.rotary_emb\.inv_freq"
    return TorchPart(file=path / "llm.pt", layout=language_layout(config), unused=unused)


def flow_part(path: Path, config: MelFlowConfig) -> TorchPart:
    unused = r"decoder\.estimator\.rotary_embed\.inv_freq"
    return TorchPart(file=path / "flow.pt", layout=flow_layout(config), unused=unused)


def vocoder_part(path: Path, config: VocoderConfig) -> TorchPart:
    """Return the vocoder; files written by training prefix it, and also hold a discriminator."""
    unused, layout = r"discriminator\..*|stft_window|mel_spec_transform.*", vocoder_layout(config)
    return TorchPart(file=path / "hift.pt", layout=layout, prefix="generator.", unused=unused)


def parts(path: Path, config: CosyVoice3Config) -> tuple[TorchPart, ...]:
    """Return all networks in a checkpoint's directory."""
    flow, vocoder = flow_part(path, config.flow), vocoder_part(path, config.vocoder)
    return language_part(path, config), flow, vocoder


def weight_bytes(path: Path) -> int:
    """Return the bytes of all networks in float32."""
    layouts = (part.layout for part in parts(path, load_config(path)))
    return FLOAT_BYTES * sum(num_values(layout.values()) for layout in layouts)


def inspect(path: Path) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not."""
    found = Findings.of(path)
    config = found.attempt(lambda: load_config(path))
    if config is None:
        return found.inspection({"Model": "CosyVoice3"})
    rows = tuple(_row(found, part) for part in parts(path, config))
    voices = found.attempt(lambda: _voices(path, config)) or ()
    clones = found.is_drawn or has_voice_encoder(path)
    if not clones and not voices:
        found.problems.append(f"{path}: has neither voices nor the networks that encode recordings")
    sizes, flow = config.text, config.flow
    facts: Facts = {
        "Model": "CosyVoice3",
        "Sample rate": f"{config.sample_rate_hz} Hz",
        "Language model": f"{sizes.num_layers} layers of width {sizes.hidden_size}",
        "Flow": f"{flow.num_layers} layers of width {flow.hidden_size}, 10 steps",
        "Chunk": f"{flow.chunk_tokens} tokens of 40 ms",
        "Speech tokens": config.num_tokens,
        "Voices": voices or ("of recordings only",),
        "Clones voices": "yes" if clones else "no",
    }
    columns = ("file", "parameters", "bytes")
    return found.inspection(facts, Table(title="Files", columns=columns, rows=rows))


def _row(found: Findings, part: TorchPart) -> tuple[str, int, int]:
    """Compare a file with its layout; return its name, parameters and bytes."""
    stored = None if found.is_drawn else found.attempt(part.read)
    if stored is None:
        return part.file.name, 0, 0
    headers = stored.headers()
    found.check_layout(part.file, headers, part.layout)
    return part.file.name, num_parameters(headers.values()), part.file.stat().st_size


def _voices(path: Path, config: CosyVoice3Config) -> tuple[str, ...]:
    """Return the built-in voices after checking the tokenizer's files."""
    from antiphon.families.cosyvoice3.tokenizer import load_tokenizer
    from antiphon.families.cosyvoice3.voices import load_voices

    load_tokenizer(path / TEXT_FOLDER)
    return tuple(load_voices(path, config))


def language_layout(config: CosyVoice3Config) -> Layout:
    """Return the layout of the language model's tensors in llm.pt."""
    sizes = config.text
    width, num_ids = sizes.hidden_size, config.num_speech_ids
    layout: Layout = {
        f"{TEXT_PREFIX}.embed_tokens.weight": (config.text_vocab_size, width),
        "speech_embedding.weight": (num_ids, width),
        "llm_decoder.weight": (num_ids, width),
    }
    return layout | transformer(TEXT_PREFIX, sizes, "qkv")


def flow_layout(config: MelFlowConfig) -> Layout:
    mels, width, dit = config.num_mels, config.hidden_size, "decoder.estimator"
    ahead, kernel = config.look_ahead_channels, config.look_ahead_tokens + 1
    conv = f"{dit}.input_embed.conv_pos_embed"
    layout: Layout = {
        "input_embedding.weight": (config.num_tokens, mels),
        **affine("spk_embed_affine_layer", mels, config.speaker_size),
        **affine("pre_lookahead_layer.conv1", ahead, mels, kernel),
        **affine("pre_lookahead_layer.conv2", mels, ahead, 3),
        **affine(f"{dit}.time_embed.time_mlp.0", width, TIME_SIZE),
        **affine(f"{dit}.time_embed.time_mlp.2", width, width),
        **affine(f"{dit}.input_embed.proj", width, 4 * mels),
        **affine(f"{conv}.conv1.0", width, width // CONV_GROUPS, CONV_KERNEL),
        **affine(f"{conv}.conv2.0", width, width // CONV_GROUPS, CONV_KERNEL),
        **affine(f"{dit}.norm_out.linear", 2 * width, width),
        **affine(f"{dit}.proj_out", mels, width),
    }
    heads, inner = config.num_heads * config.head_dim, config.feed_forward_factor * width
    layer = affine("attn_norm.linear", 6 * width, width)
    for part in "qkv":
        layer |= affine(f"attn.to_{part}", heads, width)
    layer |= affine("attn.to_out.0", width, heads)
    layer |= affine("ff.ff.0.0", inner, width) | affine("ff.ff.2", width, inner)
    return layout | repeated(f"{dit}.transformer_blocks", config.num_layers, layer)


def vocoder_layout(config: VocoderConfig) -> Layout:
    """Return the layout of hift.pt, with weight-normalised weights merged."""
    channels, pitch, spectrum = config.base_channels, config.pitch_channels, config.fft_size + 2
    layout: Layout = {
        **affine("m_source.l_linear", 1, config.num_overtones + 1),
        **affine("conv_pre", channels, config.num_mels, config.look_ahead_frames + 1),
        **affine("f0_predictor.condnet.0", pitch, config.num_mels, PITCH_LOOK_AHEAD + 1),
        **affine("f0_predictor.classifier", 1, pitch),
    }
    for index in (2, 4, 6, 8):
        layout |= affine(f"f0_predictor.condnet.{index}", pitch, pitch, 3)
    num_blocks = len(config.kernel_sizes)
    for index, kernel in enumerate(config.upsample_kernel_sizes):
        layout |= affine(f"ups.{index}", channels // 2, channels, kernel)
        channels //= 2
        stride = config.source_strides[index]
        spread = _SPREAD * stride if stride > 1 else 1
        layout |= affine(f"source_downs.{index}", channels, spectrum, spread)
        sizes = (config.source_kernel_sizes[index], len(config.source_dilations[index]))
        layout |= _snake_block(f"source_resblocks.{index}", channels, *sizes)
        for number, dilations in enumerate(config.dilations):
            block = f"resblocks.{index * num_blocks + number}"
            layout |= _snake_block(block, channels, config.kernel_sizes[number], len(dilations))
    return layout | affine("conv_post", spectrum, channels, 7)


def _snake_block(name: str, channels: int, kernel: int, num_pairs: int) -> Layout:
    layout: Layout = {}
    for index in range(num_pairs):
        for part in ("1", "2"):
            layout |= affine(f"{name}.convs{part}.{index}", channels, channels, kernel)
            layout[f"{name}.activations{part}.{index}.alpha"] = (channels,)
    return layout


def frame_products(path: Path) -> list[Product]:
    """Return the matrix products of one speech token, in order, excluding the flow."""
    config = load_config(path)
    head = Product("head", config.num_speech_ids, config.text.hidden_size)
    return [*config.text.products("text."), head]
