"""Names and shapes of all tensors of a checkpoint, and of its audio tokenizer."""

from antiphon.families.mimo_audio.config import AudioTokenizerConfig, MiMoAudioConfig, NetConfig
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.safetensors_index import Shape

UNUSED_IN_TOKENIZER = r"encoder\.quantizer\..*\.(inited|cluster_size|embed_avg)"
"""What only training needs, a regular expression."""
ENCODER_ONLY = r"encoder\.(?!quantizer).*"
"""What only recordings need."""


def spare_codebooks(config: AudioTokenizerConfig) -> str:
    """Return what names quantizers that the model does not speak, a regular expression."""
    spare = range(config.num_codes_used, len(config.code_sizes))
    names = [rf"encoder\.quantizer\.vq\.layers\.{index}\..*" for index in spare]
    return "|".join(names) or r"(?!)"


def layout_of(config: MiMoAudioConfig) -> dict[str, Shape]:
    """Return what a checkpoint's files hold."""
    width, group = config.transformer.hidden_size, config.group_frames
    local, read = config.decoder.hidden_size, config.encoder.hidden_size
    layout: dict[str, Shape] = {
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
    layout |= _transformer("model", config.transformer)
    layout |= _transformer("local_transformer", config.decoder)
    layout |= _transformer("input_local_transformer", config.encoder)
    return layout


def tokenizer_layout_of(config: AudioTokenizerConfig) -> dict[str, Shape]:
    """Return what the audio tokenizer's files hold, the encoder's half included."""
    width, mels = config.decoder.hidden_size, config.num_mels
    vocoder, bins = config.vocoder.hidden_size, config.fft_size + 2
    layout: dict[str, Shape] = {
        "encoder.conv1.weight": (width, mels, config.kernel_size),
        "encoder.conv1.bias": (width,),
        "encoder.conv2.weight": (width, width, config.kernel_size),
        "encoder.conv2.bias": (width,),
        "decoder.dconv2.conv.weight": (width, mels, config.decoder_kernel_size),
        "decoder.dconv2.conv.bias": (mels,),
        "decoder.vocoder.embeddings.weight": (vocoder, mels),
        "decoder.vocoder.head.out.weight": (bins, vocoder),
        "decoder.vocoder.head.out.bias": (bins,),
        "decoder.vocoder.head.istft.window": (config.fft_size,),
    }
    layout |= _norm("encoder.layer_norm", width) | _norm("decoder.layer_norm", width)
    layout |= _norm("decoder.dconv2.norm", mels) | _norm("decoder.vocoder.layer_norm", vocoder)
    if config.pooling != 1:
        layout["encoder.down_sample_layer.0.weight"] = (width, width, config.pooling)
        layout["decoder.dconv1.conv.weight"] = (width, width, config.pooling)
        layout["decoder.dconv1.conv.bias"] = (width,)
        layout |= _norm("encoder.down_sample_norm", width) | _norm("decoder.dconv1.norm", width)
    for index, size in enumerate(config.code_sizes):
        name = f"encoder.quantizer.vq.layers.{index}._codebook"
        layout[f"{name}.inited"] = (1,)
        layout[f"{name}.cluster_size"] = (size,)
        layout[f"{name}.embed"] = layout[f"{name}.embed_avg"] = (size, width)
    for name, net in (
        ("encoder", config.encoder),
        ("decoder", config.decoder),
        ("decoder.vocoder", config.vocoder),
    ):
        layout |= _net(name, net)
    return layout


def _transformer(name: str, config: TransformerConfig) -> dict[str, Shape]:
    width, inner = config.hidden_size, config.intermediate_size
    queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    parts: dict[str, Shape] = {
        "input_layernorm.weight": (width,),
        "post_attention_layernorm.weight": (width,),
        "self_attn.q_proj.weight": (queries, width),
        "self_attn.q_proj.bias": (queries,),
        "self_attn.k_proj.weight": (keys, width),
        "self_attn.k_proj.bias": (keys,),
        "self_attn.v_proj.weight": (keys, width),
        "self_attn.v_proj.bias": (keys,),
        "self_attn.o_proj.weight": (width, queries),
        "mlp.gate_proj.weight": (inner, width),
        "mlp.up_proj.weight": (inner, width),
        "mlp.down_proj.weight": (width, inner),
    }
    layout: dict[str, Shape] = {f"{name}.norm.weight": (width,)}
    for index in range(config.num_layers):
        layout |= {f"{name}.layers.{index}.{part}": shape for part, shape in parts.items()}
    return layout


def _net(name: str, config: NetConfig) -> dict[str, Shape]:
    width, inner = config.hidden_size, config.intermediate_size
    layout: dict[str, Shape] = {}
    for index in range(config.num_layers):
        layer = f"{name}.layers.{index}"
        for part in "qkv":
            layout[f"{layer}.self_attn.{part}_proj.weight"] = (width, width)
        layout[f"{layer}.self_attn.out_proj.weight"] = (width, width)
        for part in ("q_proj", "v_proj", "out_proj"):
            layout[f"{layer}.self_attn.{part}.bias"] = (width,)
        layout |= _norm(f"{layer}.self_attn_layer_norm", width)
        layout |= _norm(f"{layer}.final_layer_norm", width)
        layout[f"{layer}.fc1.weight"], layout[f"{layer}.fc1.bias"] = (inner, width), (inner,)
        layout[f"{layer}.fc2.weight"], layout[f"{layer}.fc2.bias"] = (width, inner), (width,)
    return layout


def _norm(name: str, width: int) -> dict[str, Shape]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}
