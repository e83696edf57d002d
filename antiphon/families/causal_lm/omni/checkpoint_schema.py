"""Names and shapes of the tensors that speak, as a function of their configuration."""

from antiphon.families.causal_lm.omni.config import BigVGANConfig, FlowConfig, OmniConfig
from antiphon.nn.layer_configs import EcapaConfig
from antiphon.nn.safetensors_index import Shape

FLOW = "token2wav.code2wav_dit_model"
VOCODER = "token2wav.code2wav_bigvgan_model"
NOT_OF_TALKER = r"token2wav\..*|thinker\.(?!model\.embed_tokens\.).*|.*\.inv_freq"
"""Names of tensors that the talker does not read, a regular expression."""
NOT_OF_TOKEN2WAV = r"talker\..*|thinker\..*|.*\.inv_freq|.*\.filter"
"""The same of what makes audio; filters follow from the configuration."""
TIME_SIZE = 256
"""Numbers that a time of the flow is embedded by."""


def talker_layout(config: OmniConfig) -> dict[str, Shape]:
    """Return what the talker reads."""
    talker = config.talker
    sizes, width = talker.transformer, talker.embedding_size
    hidden, inner = sizes.hidden_size, sizes.intermediate_size
    queries, keys = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
    layout: dict[str, Shape] = {
        f"{config.thinker}model.embed_tokens.weight": (config.thinker_vocab, width),
        "talker.model.embed_tokens.weight": (talker.vocab_size, width),
        "talker.model.norm.weight": (hidden,),
        "talker.codec_head.weight": (talker.vocab_size, hidden),
        **_linear("talker.thinker_to_talker_proj", hidden, width),
    }
    for index in range(sizes.num_layers):
        name = f"talker.model.layers.{index}"
        layout |= {
            f"{name}.input_layernorm.weight": (hidden,),
            f"{name}.post_attention_layernorm.weight": (hidden,),
            **_linear(f"{name}.self_attn.q_proj", queries, hidden),
            **_linear(f"{name}.self_attn.k_proj", keys, hidden),
            **_linear(f"{name}.self_attn.v_proj", keys, hidden),
            f"{name}.self_attn.o_proj.weight": (hidden, queries),
            f"{name}.mlp.gate_proj.weight": (inner, hidden),
            f"{name}.mlp.up_proj.weight": (inner, hidden),
            f"{name}.mlp.down_proj.weight": (hidden, inner),
        }
    return layout


def token2wav_layout(config: OmniConfig) -> dict[str, Shape]:
    """Return what makes audio of codes."""
    return _flow_layout(config.flow) | _vocoder_layout(config.vocoder)


def _flow_layout(config: FlowConfig) -> dict[str, Shape]:
    width, inner = config.hidden_size, config.num_attention_heads * config.head_dim
    read = config.mel_dim + config.ecapa.embedding_size + config.enc_emb_dim + config.emb_dim
    layout: dict[str, Shape] = {
        **_linear(f"{FLOW}.time_embed.time_mlp.0", width, TIME_SIZE),
        **_linear(f"{FLOW}.time_embed.time_mlp.2", width, width),
        f"{FLOW}.text_embed.codec_embed.weight": (config.num_embeds + 1, config.emb_dim),
        **_linear(f"{FLOW}.input_embed.proj", width, read),
        **_linear(f"{FLOW}.norm_out.linear", 2 * width, width),
        **_linear(f"{FLOW}.proj_out", config.mel_dim, width),
        **_ecapa_layout(f"{FLOW}.input_embed.spk_encoder", config.ecapa),
    }
    for index in range(config.num_hidden_layers):
        name = f"{FLOW}.transformer_blocks.{index}"
        layout |= {
            **_linear(f"{name}.attn_norm.linear", 6 * width, width),
            **_linear(f"{name}.attn.to_q", inner, width),
            **_linear(f"{name}.attn.to_k", inner, width),
            **_linear(f"{name}.attn.to_v", inner, width),
            **_linear(f"{name}.attn.to_out.0", width, inner),
            **_linear(f"{name}.ff.ff.0", config.ff_mult * width, width),
            **_linear(f"{name}.ff.ff.3", width, config.ff_mult * width),
        }
    return layout


def _ecapa_layout(name: str, config: EcapaConfig) -> dict[str, Shape]:
    sizes, kernels = config.channels, config.kernel_sizes
    last, listened = sizes[-1], config.attention_channels
    layout = _conv(f"{name}.blocks.0.conv", sizes[0], config.mel_dim, kernels[0])
    for index in range(1, len(sizes) - 1):
        block, size, squeezed = f"{name}.blocks.{index}", sizes[index], config.se_channels
        layout |= _conv(f"{block}.tdnn1.conv", size, sizes[index - 1], 1)
        for group in range(config.res2net_scale - 1):
            part = size // config.res2net_scale
            layout |= _conv(
                f"{block}.res2net_block.blocks.{group}.conv", part, part, kernels[index]
            )
        layout |= _conv(f"{block}.tdnn2.conv", size, size, 1)
        layout |= _conv(f"{block}.se_block.conv1", squeezed, size, 1)
        layout |= _conv(f"{block}.se_block.conv2", size, squeezed, 1)
    layout |= _conv(f"{name}.mfa.conv", last, sum(sizes[1:-1]), kernels[-1])
    layout |= _conv(f"{name}.asp.tdnn.conv", listened, 3 * last, 1)
    layout |= _conv(f"{name}.asp.conv", last, listened, 1)
    return layout | _conv(f"{name}.fc", config.embedding_size, 2 * last, 1)


def _vocoder_layout(config: BigVGANConfig) -> dict[str, Shape]:
    size = config.initial_channels
    layout = _conv(f"{VOCODER}.conv_pre", size, config.mel_dim, 7)
    number = 0
    for index, kernel in enumerate(config.up_kernel_sizes):
        layout |= {
            f"{VOCODER}.ups.{index}.0.weight": (size, size // 2, kernel),
            f"{VOCODER}.ups.{index}.0.bias": (size // 2,),
        }
        size //= 2
        for width, dilations in zip(config.kernel_sizes, config.dilations, strict=True):
            block = f"{VOCODER}.resblocks.{number}"
            for place in range(len(dilations)):
                layout |= _conv(f"{block}.convs1.{place}", size, size, width)
                layout |= _conv(f"{block}.convs2.{place}", size, size, width)
            for place in range(2 * len(dilations)):
                layout |= _snake(f"{block}.activations.{place}.act", size)
            number += 1
    layout |= _snake(f"{VOCODER}.activation_post.act", size)
    return layout | {f"{VOCODER}.conv_post.weight": (1, size, 7)}


def _linear(name: str, num_outputs: int, num_inputs: int) -> dict[str, Shape]:
    return {f"{name}.weight": (num_outputs, num_inputs), f"{name}.bias": (num_outputs,)}


def _conv(name: str, num_outputs: int, num_inputs: int, width: int) -> dict[str, Shape]:
    return {f"{name}.weight": (num_outputs, num_inputs, width), f"{name}.bias": (num_outputs,)}


def _snake(name: str, size: int) -> dict[str, Shape]:
    return {f"{name}.alpha": (size,), f"{name}.beta": (size,)}
