"""Names and shapes of a language model's tensors, as a function of its configuration."""

from antiphon.families.causal_lm.config import CausalLMConfig
from antiphon.nn.safetensors_index import Shape


def others(config: CausalLMConfig) -> str:
    """Return a regular expression for names of tensors that are not read.

    Old files repeat what a configuration says of positions, and some repeat a head that is tied.
    """
    names = [r".*\.rotary_emb\.inv_freq"]
    if config.is_tied:
        names.append(rf"{config.prefix}lm_head\.weight")
    if config.others:
        names.append(config.others)
    return "|".join(f"(?:{name})" for name in names)


def tied(config: CausalLMConfig) -> dict[str, str]:
    """Return the head and the embedding that is used in its place, if the head is tied."""
    head, embedding = f"{config.prefix}lm_head.weight", f"{config.prefix}model.embed_tokens.weight"
    return {head: embedding} if config.is_tied else {}


def layout_of(config: CausalLMConfig) -> dict[str, Shape]:
    """Return what the files hold, without `others`."""
    width, prefix = config.transformer.hidden_size, config.prefix
    layout: dict[str, Shape] = {
        f"{prefix}model.embed_tokens.weight": (config.vocab_size, width),
        f"{prefix}model.norm.weight": (width,),
    }
    if not config.is_tied:
        layout[f"{prefix}lm_head.weight"] = (config.vocab_size, width)
    layer = _layer(config)
    for index in range(config.transformer.num_layers):
        layout |= {f"{prefix}model.layers.{index}.{part}": each for part, each in layer.items()}
    return layout


def _layer(config: CausalLMConfig) -> dict[str, Shape]:
    sizes = config.transformer
    width, inner = sizes.hidden_size, sizes.intermediate_size
    queries, keys = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
    layer: dict[str, Shape] = {
        "input_layernorm.weight": (width,),
        "post_attention_layernorm.weight": (width,),
    }
    outputs = {"q": (queries, width), "k": (keys, width), "v": (keys, width), "o": (width, queries)}
    for part, shape in outputs.items():
        layer[f"self_attn.{part}_proj.weight"] = shape
        if part in config.biased:
            layer[f"self_attn.{part}_proj.bias"] = shape[:1]
    for part, shape in {
        "gate": (inner, width),
        "up": (inner, width),
        "down": (width, inner),
    }.items():
        layer[f"mlp.{part}_proj.weight"] = shape
        if config.has_mlp_bias:
            layer[f"mlp.{part}_proj.bias"] = shape[:1]
    if config.has_head_norms:
        layer |= {f"self_attn.{part}_norm.weight": (sizes.head_dim,) for part in "qk"}
    return layer
