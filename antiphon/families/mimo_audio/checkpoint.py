"""Layout and inspection of the tensors of a checkpoint and its audio tokenizer."""

from functools import partial
from importlib.util import find_spec
from pathlib import Path

from antiphon.contracts.inspection import Inspection
from antiphon.families.kit.checkpoint import Findings, by_prefix, components, num_parameters
from antiphon.families.kit.layouts import Layout, affine, repeated, transformer
from antiphon.families.mimo_audio.config import (
    AudioTokenizerConfig,
    MiMoAudioConfig,
    NetConfig,
    load_config,
    load_tokenizer_config,
    tokenizer_path,
)
from antiphon.nn.safetensors_index import WeightsPart

_OF_TRAINING = r"encoder\.quantizer\..*\.(inited|cluster_size|embed_avg)"
_ENCODER_ONLY = r"encoder\.(?!quantizer).*"
_PARTS = {
    "local_transformer": "patch decoder",
    "hidden_states_downcast": "patch decoder",
    "speech_embeddings_to_local": "patch decoder",
    "input_local_transformer": "patch encoder",
    "speech_embeddings": "patch encoder",
    "speech_group_downcast": "patch encoder",
    "encoder": "audio tokenizer, encoder",
    "decoder": "audio tokenizer, decoder",
}


def inspect(path: Path) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not."""
    found = Findings.of(path)
    config, audio = found.attempt(lambda: load_config(path)), None
    headers = found.tensors(path, layout_of(config) if config else None)
    beside = found.attempt(lambda: tokenizer_path(path))
    if beside is not None:
        if config is not None:
            audio = found.attempt(partial(load_tokenizer_config, beside, config))
        headers += found.tensors(beside, tokenizer_layout_of(audio) if audio else None)
    if config is not None and find_spec("tokenizers"):
        from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer

        found.attempt(partial(load_text_tokenizer, path, config.vocab_size))
    facts: dict[str, str | int] = {
        "Task": "speech from text, in the style of instructions",
        **({} if config is None else _facts(config)),
        **({} if audio is None else _rates(audio)),
        **({} if beside is None else {"Audio tokenizer": str(beside)}),
        "Parameters": num_parameters(headers),
    }
    table = components(by_prefix(headers, _PARTS, "language model"))
    return found.inspection(facts, table)


def _facts(config: MiMoAudioConfig) -> dict[str, str | int]:
    sizes, decoder = config.transformer, config.decoder
    return {
        "Language model": f"{sizes.num_layers} layers of width {sizes.hidden_size},"
        f" {sizes.num_heads} heads of {sizes.head_dim} on {sizes.num_kv_heads}",
        "Patch decoder": f"{decoder.num_layers} layers of width {decoder.hidden_size},"
        f" {decoder.max_positions} steps a group",
        "Patch encoder": f"{config.encoder.num_layers} layers of width"
        f" {config.encoder.hidden_size}",
        "Codes": f"{config.num_channels} a frame, {config.group_frames} frames a group",
        "Vocabulary": config.vocab_size,
    }


def _rates(config: AudioTokenizerConfig) -> dict[str, str]:
    groups_per_s = config.sample_rate_hz / config.samples_per_group
    return {"Sample rate": f"{config.sample_rate_hz} Hz", "Groups per second": f"{groups_per_s:g}"}


def encoder_part(path: Path, config: AudioTokenizerConfig) -> WeightsPart:
    """Return the encoder in an audio tokenizer's directory, with the quantizers in use."""
    unused, layout = f"{_OF_TRAINING}|{_spare_codebooks(config)}", tokenizer_layout_of(config)
    return WeightsPart(directory=path, layout=layout, prefix="encoder.", unused=unused)


def decoder_part(path: Path, config: AudioTokenizerConfig) -> WeightsPart:
    """Return the decoder in an audio tokenizer's directory, with the quantizers in use."""
    unused = f"{_OF_TRAINING}|{_ENCODER_ONLY}|{_spare_codebooks(config)}"
    return WeightsPart(directory=path, layout=tokenizer_layout_of(config), unused=unused)


def _spare_codebooks(config: AudioTokenizerConfig) -> str:
    """Return a regular expression of quantizer tensors that the model does not use."""
    spare = range(config.num_codes_used, len(config.code_sizes))
    names = [rf"encoder\.quantizer\.vq\.layers\.{index}\..*" for index in spare]
    return "|".join(names) or r"(?!)"


def layout_of(config: MiMoAudioConfig) -> Layout:
    width, group = config.transformer.hidden_size, config.group_frames
    local, read = config.decoder.hidden_size, config.encoder.hidden_size
    layout: Layout = {
        "model.embed_tokens.weight": (config.vocab_size, width),
        "lm_head.weight": (config.vocab_size, width),
        "speech_group_downcast.weight": (width, read * group),
        "hidden_states_downcast.weight": (local, width),
    }
    if local != read:
        layout["speech_embeddings_to_local.weight"] = (local, read)
    for channel, size in enumerate(config.code_sizes):
        layout[f"speech_embeddings.{channel}.weight"] = (size, read)
        layout[f"local_transformer_lm_heads.{channel}.weight"] = (size, local)
    layout |= transformer("model", config.transformer, "qkv")
    layout |= transformer("local_transformer", config.decoder, "qkv")
    return layout | transformer("input_local_transformer", config.encoder, "qkv")


def tokenizer_layout_of(config: AudioTokenizerConfig) -> Layout:
    """Return the layout of the audio tokenizer's files, including the encoder."""
    width, mels = config.decoder.hidden_size, config.num_mels
    vocoder, bins = config.vocoder.hidden_size, config.fft_size + 2
    layout: Layout = {
        **affine("encoder.conv1", width, mels, config.kernel_size),
        **affine("encoder.conv2", width, width, config.kernel_size),
        **affine("decoder.dconv2.conv", width, mels, config.decoder_kernel_size, num_outputs=mels),
        "decoder.vocoder.embeddings.weight": (vocoder, mels),
        **affine("decoder.vocoder.head.out", bins, vocoder),
        "decoder.vocoder.head.istft.window": (config.fft_size,),
    }
    layout |= affine("encoder.layer_norm", width) | affine("decoder.layer_norm", width)
    layout |= affine("decoder.dconv2.norm", mels) | affine("decoder.vocoder.layer_norm", vocoder)
    layout["encoder.down_sample_layer.0.weight"] = (width, width, config.pooling)
    layout |= affine("decoder.dconv1.conv", width, width, config.pooling)
    layout |= affine("encoder.down_sample_norm", width) | affine("decoder.dconv1.norm", width)
    for index, size in enumerate(config.code_sizes):
        name = f"encoder.quantizer.vq.layers.{index}._codebook"
        layout[f"{name}.inited"] = (1,)
        layout[f"{name}.cluster_size"] = (size,)
        layout[f"{name}.embed"] = layout[f"{name}.embed_avg"] = (size, width)
    layout |= _net("encoder", config.encoder) | _net("decoder", config.decoder)
    return layout | _net("decoder.vocoder", config.vocoder)


def _net(name: str, config: NetConfig) -> Layout:
    width, inner = config.hidden_size, config.intermediate_size
    layer: Layout = {f"self_attn.{part}_proj.weight": (width, width) for part in "qkv"}
    layer["self_attn.out_proj.weight"] = (width, width)
    for part in ("q_proj", "v_proj", "out_proj"):
        layer[f"self_attn.{part}.bias"] = (width,)
    layer |= affine("self_attn_layer_norm", width) | affine("final_layer_norm", width)
    layer |= affine("fc1", inner, width) | affine("fc2", width, inner)
    return repeated(f"{name}.layers", config.num_layers, layer)
