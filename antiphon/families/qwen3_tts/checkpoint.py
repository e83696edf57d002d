"""Parts of a checkpoint, their tensor layout by its configuration, and its inspection."""

import json
from importlib.util import find_spec
from pathlib import Path

from antiphon.contracts.inspection import Inspection, Table, files_table
from antiphon.errors import ModelLoadError
from antiphon.families.kit.checkpoint import Facts, Findings, by_prefix, components, num_parameters
from antiphon.families.kit.layouts import (
    Layout,
    affine,
    attention,
    convnext,
    ecapa,
    gated_mlp,
    head_norms,
    layer_norms,
    repeated,
    snake,
    transformer,
    under,
)
from antiphon.families.qwen3_tts.config import (
    CODEC_DIRECTORY,
    DOWNSAMPLE_STRIDE,
    CheckpointTask,
    CodecDecoderConfig,
    CodecEncoderConfig,
    PredictorConfig,
    Qwen3TTSConfig,
    TalkerConfig,
)
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.voices import capabilities_of
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.safetensors_index import WeightsPart

_TASKS = {
    CheckpointTask.CUSTOM_VOICE: "built-in voices",
    CheckpointTask.VOICE_DESIGN: "a voice from a description",
    CheckpointTask.BASE: "a voice from a recording",
}
_SIZES = {"0b6": "0.6B", "1b7": "1.7B"}
_MAIN_PARTS = {  # the first match applies
    "talker.code_predictor.": "predictor",
    "talker.model.text_embedding.": "text embedding",
    "talker.": "talker",
    "speaker_encoder.": "speaker encoder",
}
_CODEC_PARTS = {"decoder.": "codec decoder", "encoder.": "codec encoder"}


def inspect(path: Path) -> Inspection:
    """Return the inspection of a checkpoint's directory, complete or not."""
    found = Findings.of(path)
    config = found.attempt(lambda: load_config(path))
    main = found.tensors(path, main_layout(config) if config else None)
    codec = found.tensors(path / CODEC_DIRECTORY, codec_layout(config) if config else None)
    tokenizer = _tokenizer(found, path)
    facts = {
        **(_facts(config) if config else {}),
        "Parameters": num_parameters([*main, *codec]),
        "Tokenizer": tokenizer,
    }
    parts = by_prefix(main, _MAIN_PARTS, "other") + by_prefix(codec, _CODEC_PARTS, "other")
    voices = [_voices(config)] if config else []
    return found.inspection(facts, components(parts), *voices, files_table(path))


def _facts(config: Qwen3TTSConfig) -> Facts:
    names = config.selectable_languages
    return {
        "Task": f"{config.task}: {_TASKS[config.task]}",
        "Size": _SIZES.get(config.model_size, config.model_size),
        "Languages": names,
        "Dialects": tuple(name for name in config.languages if name not in names),
        "Instructions": "yes" if config.takes_instructions else "no",
        "Audio": f"{config.codec.sample_rate_hz} Hz,"
        f" {config.codec.sample_rate_hz / config.codec.samples_per_frame:g} frames a second"
        f" of {config.codec.num_quantizers} codes",
    }


def _voices(config: Qwen3TTSConfig) -> Table:
    rows = tuple(
        (voice.id, config.dialects.get(voice.id, "any language"), voice.description or "")
        for voice in capabilities_of(config).voices
    )
    return Table(title="Voices", columns=("Voice", "Speaks", "Description"), rows=rows)


def _tokenizer(found: Findings, path: Path) -> str:
    """Return the vocabulary's files and size, after a check if `tokenizers` is installed."""
    is_split = (path / "vocab.json").is_file()
    file = path / ("vocab.json" if is_split else "tokenizer.json")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        size = len(content if is_split else content["model"]["vocab"])
        if find_spec("tokenizers") is not None:
            from antiphon.families.qwen3_tts.tokenizer import load_tokenizer

            load_tokenizer(path)
    except ModelLoadError as error:
        found.problems.append(error.message)
        return "broken"
    except (OSError, ValueError, KeyError, TypeError) as error:
        found.problems.append(f"{file}: cannot be read: {error}")
        return "none"
    return f"{file.name}{' and merges.txt' if is_split else ''}, {size} tokens"


def language_model_part(path: Path, config: Qwen3TTSConfig) -> WeightsPart:
    """Return the talker, predictor included, in a checkpoint's directory."""
    return WeightsPart(directory=path, layout=main_layout(config), prefix="talker.")


def speaker_encoder_part(path: Path, config: Qwen3TTSConfig) -> WeightsPart:
    return WeightsPart(directory=path, layout=main_layout(config), prefix="speaker_encoder.")


def codec_decoder_part(path: Path, config: Qwen3TTSConfig) -> WeightsPart:
    """Return the codec's decoder, without input projections of quantizers."""
    directory, unused = path / CODEC_DIRECTORY, r"decoder\.quantizer\.\w+\.input_proj\.weight"
    layout = codec_layout(config)
    return WeightsPart(directory=directory, layout=layout, prefix="decoder.", unused=unused)


def codec_encoder_part(path: Path, config: Qwen3TTSConfig) -> WeightsPart:
    """Return the codec's encoder, with the quantizers in use, without their output projections."""
    encoder = config.codec.encoder
    assert encoder is not None, "base checkpoints have one"
    num_acoustic = config.codec.num_quantizers - encoder.num_semantic_quantizers
    spare = range(num_acoustic, encoder.num_quantizers - encoder.num_semantic_quantizers)
    levels = "|".join(map(str, spare)) or "(?!)"
    unused = r"encoder\.quantizer\.\w+\.output_proj\.weight|.*\.initialized"
    unused += rf"|encoder\.quantizer\.acoustic.*\.layers\.({levels})\..*"
    directory, layout = path / CODEC_DIRECTORY, codec_layout(config)
    return WeightsPart(directory=directory, layout=layout, prefix="encoder.", unused=unused)


def main_layout(config: Qwen3TTSConfig) -> Layout:
    layout = _talker(config.talker) | _predictor(config.predictor)
    if config.speaker_encoder is not None:
        layout |= under("speaker_encoder", ecapa(config.speaker_encoder))
    return layout


def codec_layout(config: Qwen3TTSConfig) -> Layout:
    """Return the layout of speech_tokenizer/model.safetensors."""
    layout = _codec_decoder(config.codec.decoder)
    return layout | (_codec_encoder(config.codec.encoder) if config.codec.encoder else {})


def _talker(config: TalkerConfig) -> Layout:
    width = config.transformer.hidden_size
    model: Layout = {
        "codec_embedding.weight": (config.vocab_size, width),
        "text_embedding.weight": (config.text_vocab_size, config.text_hidden_size),
    }
    projection = affine("linear_fc1", config.text_hidden_size, config.text_hidden_size)
    projection |= affine("linear_fc2", width, config.text_hidden_size)
    return (
        under("talker.model", model)
        | transformer("talker.model", config.transformer, "", head_norms(config.transformer))
        | under("talker.text_projection", projection)
        | {"talker.codec_head.weight": (config.vocab_size, width)}
    )


def _predictor(config: PredictorConfig) -> Layout:
    width = config.transformer.hidden_size
    layout = transformer("model", config.transformer, "", head_norms(config.transformer))
    for group in range(config.num_groups - 1):
        table = (config.vocab_size, config.embedding_size)
        layout[f"model.codec_embedding.{group}.weight"] = table
        layout[f"lm_head.{group}.weight"] = (config.vocab_size, width)
    if config.has_projection:
        layout |= affine("small_to_mtp_projection", width, config.embedding_size)
    return under("talker.code_predictor", layout)


def _codec_decoder(config: CodecDecoderConfig) -> Layout:
    latent = config.latent_dim
    layout = under("pre_transformer", _codec_transformer(config))
    layout |= under("quantizer", _codec_quantizer(config))
    layout |= affine("pre_conv.conv", latent, config.codebook_dim, 3)
    for index, ratio in enumerate(config.upsampling_ratios):
        layout |= affine(f"upsample.{index}.0.conv", latent, latent, ratio, num_outputs=latent)
        layout |= under(f"upsample.{index}.1", convnext(latent))
    layout |= affine("decoder.0.conv", config.decoder_dim, latent, 7)
    width = config.decoder_dim
    for index, rate in enumerate(config.upsample_rates, 1):
        layout |= under(f"decoder.{index}.block", _decoder_block(width, width // 2, rate))
        width //= 2
    last = len(config.upsample_rates) + 1
    layout |= snake(f"decoder.{last}", width)
    layout |= affine(f"decoder.{last + 1}.conv", 1, width, 7)
    return under("decoder", layout)


def _codec_transformer(config: CodecDecoderConfig) -> Layout:
    sizes, width = config.transformer, config.transformer.hidden_size
    layer = attention(sizes) | gated_mlp(sizes) | layer_norms(sizes)
    layer |= {"self_attn_layer_scale.scale": (width,), "mlp_layer_scale.scale": (width,)}
    return (
        repeated("layers", sizes.num_layers, layer)
        | {"norm.weight": (width,)}
        | affine("input_proj", width, config.latent_dim)
        | affine("output_proj", config.latent_dim, width)
    )


def _codec_quantizer(config: CodecDecoderConfig) -> Layout:
    width = config.codebook_dim // 2
    layout: Layout = {}
    for name, num_tables in (("rvq_first", 1), ("rvq_rest", config.num_quantizers - 1)):
        layout[f"{name}.input_proj.weight"] = (width, config.codebook_dim, 1)
        layout[f"{name}.output_proj.weight"] = (config.codebook_dim, width, 1)
        for index in range(num_tables):
            table = f"{name}.vq.layers.{index}._codebook"
            layout[f"{table}.cluster_usage"] = (config.codebook_size,)
            layout[f"{table}.embedding_sum"] = (config.codebook_size, width)
    return layout


def _decoder_block(inputs: int, outputs: int, rate: int) -> Layout:
    layout = snake("0", inputs) | affine("1.conv", inputs, outputs, 2 * rate, num_outputs=outputs)
    for unit in ("2", "3", "4"):
        layout |= snake(f"{unit}.act1", outputs) | snake(f"{unit}.act2", outputs)
        layout |= affine(f"{unit}.conv1.conv", outputs, outputs, 7)
        layout |= affine(f"{unit}.conv2.conv", outputs, outputs, 1)
    return layout


def _codec_encoder(config: CodecEncoderConfig) -> Layout:
    width = config.hidden_size
    kernel_size = 2 * DOWNSAMPLE_STRIDE
    layout = under("encoder", _seanet(config))
    layout |= under("encoder_transformer", _mimi_layers(config.transformer))
    layout["downsample.conv.weight"] = (width, width, kernel_size)
    num_semantic = config.num_semantic_quantizers
    tables = {"semantic": num_semantic, "acoustic": config.num_quantizers - num_semantic}
    for name, num_tables in tables.items():
        quantizer = _mimi_quantizer(config, num_tables)
        layout |= under(f"quantizer.{name}_residual_vector_quantizer", quantizer)
    return under("encoder", layout)


def _seanet(config: CodecEncoderConfig) -> Layout:
    """Return the convolutions; their numbers count the activations between them too."""
    width = config.num_filters
    layout = affine("layers.0.conv", width, 1, config.kernel_size)
    index = 1
    for ratio in reversed(config.ratios):
        narrow = width // config.compress
        for _ in range(config.num_residual_layers):
            block = f"layers.{index}.block"
            layout |= affine(f"{block}.1.conv", narrow, width, config.residual_kernel_size)
            layout |= affine(f"{block}.3.conv", width, narrow, 1)
            index += 1
        layout |= affine(f"layers.{index + 1}.conv", 2 * width, width, 2 * ratio)
        index += 2
        width *= 2
    last = f"layers.{index + 1}.conv"
    return layout | affine(last, config.hidden_size, width, config.last_kernel_size)


def _mimi_layers(config: TransformerConfig) -> Layout:
    width, inner = config.hidden_size, config.intermediate_size
    layer = attention(config)
    layer |= {"mlp.fc1.weight": (inner, width), "mlp.fc2.weight": (width, inner)}
    layer |= affine("input_layernorm", width) | affine("post_attention_layernorm", width)
    layer |= {"self_attn_layer_scale.scale": (width,), "mlp_layer_scale.scale": (width,)}
    return repeated("layers", config.num_layers, layer)


def _mimi_quantizer(config: CodecEncoderConfig, num_tables: int) -> Layout:
    layout: Layout = {
        "input_proj.weight": (config.codebook_dim, config.hidden_size, 1),
        "output_proj.weight": (config.hidden_size, config.codebook_dim, 1),
    }
    for index in range(num_tables):
        table = f"layers.{index}.codebook"
        layout[f"{table}.initialized"] = (1,)
        layout[f"{table}.cluster_usage"] = (config.codebook_size,)
        layout[f"{table}.embed_sum"] = (config.codebook_size, config.codebook_dim)
    return layout
