"""Names and shapes of every tensor in a checkpoint, as a function of its configuration.

Loading compares files with it before any byte is read, and random checkpoints are made from it.
"""

from typing import TypeAlias

from antiphon.families.qwen3_tts.config import (
    DOWNSAMPLE_STRIDE,
    CodecDecoderConfig,
    CodecEncoderConfig,
    PredictorConfig,
    Qwen3TTSConfig,
    TalkerConfig,
)
from antiphon.nn.layer_configs import EcapaConfig, TransformerConfig

Shape: TypeAlias = tuple[int, ...]
Layout: TypeAlias = dict[str, Shape]


def main_layout(config: Qwen3TTSConfig) -> Layout:
    """Return what model.safetensors holds."""
    layout = _talker(config.talker) | _predictor(config.predictor)
    if config.speaker_encoder is not None:
        layout |= _speaker_encoder(config.speaker_encoder)
    return layout


def codec_layout(config: Qwen3TTSConfig) -> Layout:
    """Return what speech_tokenizer/model.safetensors holds."""
    return _codec_decoder(config.codec.decoder) | _codec_encoder(config.codec.encoder)


def _under(prefix: str, layout: Layout) -> Layout:
    return {f"{prefix}.{name}": shape for name, shape in layout.items()}


def _talker(config: TalkerConfig) -> Layout:
    width = config.transformer.hidden_size
    model: Layout = {
        "codec_embedding.weight": (config.vocab_size, width),
        "text_embedding.weight": (config.text_vocab_size, config.text_hidden_size),
    }
    projection = _linear("linear_fc1", config.text_hidden_size, config.text_hidden_size)
    projection |= _linear("linear_fc2", config.text_hidden_size, width)
    return (
        _under("talker.model", model | _qwen3(config.transformer))
        | _under("talker.text_projection", projection)
        | {"talker.codec_head.weight": (config.vocab_size, width)}
    )


def _predictor(config: PredictorConfig) -> Layout:
    width = config.transformer.hidden_size
    layout = _under("model", _qwen3(config.transformer))
    for group in range(config.num_groups - 1):
        table = (config.vocab_size, config.embedding_size)
        layout[f"model.codec_embedding.{group}.weight"] = table
        layout[f"lm_head.{group}.weight"] = (config.vocab_size, width)
    if config.has_projection:
        layout |= _linear("small_to_mtp_projection", config.embedding_size, width)
    return _under("talker.code_predictor", layout)


def _qwen3(config: TransformerConfig) -> Layout:
    layer = _attention(config) | _gated_mlp(config)
    layer |= {
        "self_attn.q_norm.weight": (config.head_dim,),
        "self_attn.k_norm.weight": (config.head_dim,),
        "input_layernorm.weight": (config.hidden_size,),
        "post_attention_layernorm.weight": (config.hidden_size,),
    }
    return _layers(config, layer) | {"norm.weight": (config.hidden_size,)}


def _layers(config: TransformerConfig, layer: Layout) -> Layout:
    every: Layout = {}
    for index in range(config.num_layers):
        every |= _under(f"layers.{index}", layer)
    return every


def _attention(config: TransformerConfig) -> Layout:
    queries = config.num_heads * config.head_dim
    keys = config.num_kv_heads * config.head_dim
    return {
        "self_attn.q_proj.weight": (queries, config.hidden_size),
        "self_attn.k_proj.weight": (keys, config.hidden_size),
        "self_attn.v_proj.weight": (keys, config.hidden_size),
        "self_attn.o_proj.weight": (config.hidden_size, queries),
    }


def _gated_mlp(config: TransformerConfig) -> Layout:
    return {
        "mlp.gate_proj.weight": (config.intermediate_size, config.hidden_size),
        "mlp.up_proj.weight": (config.intermediate_size, config.hidden_size),
        "mlp.down_proj.weight": (config.hidden_size, config.intermediate_size),
    }


def _linear(name: str, inputs: int, outputs: int) -> Layout:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _conv(name: str, inputs: int, outputs: int, kernel_size: int) -> Layout:
    return {f"{name}.weight": (outputs, inputs, kernel_size), f"{name}.bias": (outputs,)}


def _transposed_conv(name: str, inputs: int, outputs: int, kernel_size: int) -> Layout:
    return {f"{name}.weight": (inputs, outputs, kernel_size), f"{name}.bias": (outputs,)}


def _speaker_encoder(config: EcapaConfig) -> Layout:
    first, *middle, pooled = config.channels
    sizes = config.kernel_sizes
    layout = _conv("blocks.0.conv", config.mel_dim, first, sizes[0])
    for index, width in enumerate(middle, 1):
        block = f"blocks.{index}"
        layout |= _conv(f"{block}.tdnn1.conv", config.channels[index - 1], width, 1)
        part = width // config.res2net_scale
        for scale in range(config.res2net_scale - 1):
            name = f"{block}.res2net_block.blocks.{scale}.conv"
            layout |= _conv(name, part, part, sizes[index])
        layout |= _conv(f"{block}.tdnn2.conv", width, width, 1)
        layout |= _conv(f"{block}.se_block.conv1", width, config.se_channels, 1)
        layout |= _conv(f"{block}.se_block.conv2", config.se_channels, width, 1)
    layout |= _conv("mfa.conv", sum(middle), pooled, sizes[-1])
    layout |= _conv("asp.tdnn.conv", 3 * pooled, config.attention_channels, 1)
    layout |= _conv("asp.conv", config.attention_channels, pooled, 1)
    layout |= _conv("fc", 2 * pooled, config.embedding_size, 1)
    return _under("speaker_encoder", layout)


def _codec_decoder(config: CodecDecoderConfig) -> Layout:
    latent = config.latent_dim
    layout = _under("pre_transformer", _codec_transformer(config))
    layout |= _under("quantizer", _codec_quantizer(config))
    layout |= _conv("pre_conv.conv", config.codebook_dim, latent, 3)
    for index, ratio in enumerate(config.upsampling_ratios):
        layout |= _transposed_conv(f"upsample.{index}.0.conv", latent, latent, ratio)
        layout |= _under(f"upsample.{index}.1", _convnext(latent))
    layout |= _conv("decoder.0.conv", latent, config.decoder_dim, 7)
    width = config.decoder_dim
    for index, rate in enumerate(config.upsample_rates, 1):
        layout |= _under(f"decoder.{index}.block", _decoder_block(width, width // 2, rate))
        width //= 2
    last = len(config.upsample_rates) + 1
    layout |= _snake(f"decoder.{last}", width)
    layout |= _conv(f"decoder.{last + 1}.conv", width, 1, 7)
    return _under("decoder", layout)


def _codec_transformer(config: CodecDecoderConfig) -> Layout:
    transformer = config.transformer
    width = transformer.hidden_size
    layer = _attention(transformer) | _gated_mlp(transformer)
    layer |= {
        "input_layernorm.weight": (width,),
        "post_attention_layernorm.weight": (width,),
        "self_attn_layer_scale.scale": (width,),
        "mlp_layer_scale.scale": (width,),
    }
    return (
        _layers(transformer, layer)
        | {"norm.weight": (width,)}
        | _linear("input_proj", config.latent_dim, width)
        | _linear("output_proj", width, config.latent_dim)
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


def _convnext(width: int) -> Layout:
    return (
        {"gamma": (width,)}
        | _conv("dwconv.conv", 1, width, 7)
        | {"norm.weight": (width,), "norm.bias": (width,)}
        | _linear("pwconv1", width, 4 * width)
        | _linear("pwconv2", 4 * width, width)
    )


def _decoder_block(inputs: int, outputs: int, rate: int) -> Layout:
    layout = _snake("0", inputs) | _transposed_conv("1.conv", inputs, outputs, 2 * rate)
    for unit in ("2", "3", "4"):
        layout |= _snake(f"{unit}.act1", outputs) | _snake(f"{unit}.act2", outputs)
        layout |= _conv(f"{unit}.conv1.conv", outputs, outputs, 7)
        layout |= _conv(f"{unit}.conv2.conv", outputs, outputs, 1)
    return layout


def _snake(name: str, width: int) -> Layout:
    return {f"{name}.alpha": (width,), f"{name}.beta": (width,)}


def _codec_encoder(config: CodecEncoderConfig) -> Layout:
    width = config.hidden_size
    kernel_size = 2 * DOWNSAMPLE_STRIDE
    layout = _under("encoder", _seanet(config))
    layout |= _under("encoder_transformer", _mimi_layers(config.transformer))
    layout["downsample.conv.weight"] = (width, width, kernel_size)
    num_semantic = config.num_semantic_quantizers
    tables = {"semantic": num_semantic, "acoustic": config.num_quantizers - num_semantic}
    for name, num_tables in tables.items():
        quantizer = _mimi_quantizer(config, num_tables)
        layout |= _under(f"quantizer.{name}_residual_vector_quantizer", quantizer)
    return _under("encoder", layout)


def _seanet(config: CodecEncoderConfig) -> Layout:
    """Return the convolutions; their numbers count the activations between them too."""
    width = config.num_filters
    layout = _conv("layers.0.conv", 1, width, config.kernel_size)
    index = 1
    for ratio in reversed(config.ratios):
        narrow = width // config.compress
        for _ in range(config.num_residual_layers):
            block = f"layers.{index}.block"
            layout |= _conv(f"{block}.1.conv", width, narrow, config.residual_kernel_size)
            layout |= _conv(f"{block}.3.conv", narrow, width, 1)
            index += 1
        layout |= _conv(f"layers.{index + 1}.conv", width, 2 * width, 2 * ratio)
        index += 2
        width *= 2
    last = f"layers.{index + 1}.conv"
    return layout | _conv(last, width, config.hidden_size, config.last_kernel_size)


def _mimi_layers(config: TransformerConfig) -> Layout:
    layer = _attention(config)
    layer |= {
        "mlp.fc1.weight": (config.intermediate_size, config.hidden_size),
        "mlp.fc2.weight": (config.hidden_size, config.intermediate_size),
    }
    for name in ("input_layernorm", "post_attention_layernorm"):
        layer |= {f"{name}.weight": (config.hidden_size,), f"{name}.bias": (config.hidden_size,)}
    for name in ("self_attn_layer_scale", "mlp_layer_scale"):
        layer[f"{name}.scale"] = (config.hidden_size,)
    return _layers(config, layer)


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
