"""Names and shapes of the prior's tensors, as a function of its configuration."""

from antiphon.families.glm_image.config import PriorConfig
from antiphon.nn.safetensors_index import Shape

OTHERS = r"model\.(visual|vqmodel)\..*"
"""Names of tensors that only images to be edited need."""


def prior_layout(config: PriorConfig) -> dict[str, Shape]:
    """Return the shapes of the tensors in the prior's files, without `OTHERS`."""
    width, name = config.transformer.hidden_size, "model.language_model"
    layout: dict[str, Shape] = {
        "lm_head.weight": (config.head_size, width),
        f"{name}.embed_tokens.weight": (config.vocab_size, width),
        f"{name}.norm.weight": (width,),
    }
    layer = _layer(config)
    for index in range(config.transformer.num_layers):
        layout |= {f"{name}.layers.{index}.{part}": shape for part, shape in layer.items()}
    return layout


def _layer(config: PriorConfig) -> dict[str, Shape]:
    sizes = config.transformer
    width, inner = sizes.hidden_size, sizes.intermediate_size
    queries, keys = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
    layer: dict[str, Shape] = {
        "self_attn.o_proj.weight": (width, queries),
        "mlp.gate_up_proj.weight": (2 * inner, width),
        "mlp.down_proj.weight": (width, inner),
        "input_layernorm.weight": (width,),
        "post_self_attn_layernorm.weight": (width,),
        "post_attention_layernorm.weight": (width,),
        "post_mlp_layernorm.weight": (width,),
    }
    for part, size in (("q", queries), ("k", keys), ("v", keys)):
        layer[f"self_attn.{part}_proj.weight"] = (size, width)
        if config.has_biases:
            layer[f"self_attn.{part}_proj.bias"] = (size,)
    return layer
