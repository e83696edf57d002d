"""Sizes of transformers."""

from collections.abc import Mapping
from typing import Any

from antiphon.contracts.config_file import ConfigSection
from antiphon.nn.layer_configs import TRANSFORMER_KEYS, TransformerConfig


def transformer_sizes(
    section: ConfigSection,
    keys: Mapping[str, str] = TRANSFORMER_KEYS,
    defaults: Mapping[str, Any] | None = None,
    **given: Any,
) -> TransformerConfig:
    """Read sizes; by default, key-value heads are as many as heads, which share the width.

    Args:
        keys: keys of fields that have other names in the file.
        defaults: values of missing keys.
        given: values of fields that are not read.

    Raises:
        ModelLoadError: a key is missing or has the wrong type, or heads do not divide.
    """
    known = {**(defaults or {}), **given}
    num_heads = section.integer(keys["num_heads"], known.get("num_heads"))
    if num_heads < 1:
        raise section.error(keys["num_heads"], "must be at least 1")
    width = section.integer(keys.get("hidden_size", "hidden_size"), known.get("hidden_size"))
    usual = {"head_dim": width // num_heads, "num_kv_heads": num_heads, **(defaults or {})}
    sizes = section.build(TransformerConfig, keys, usual, **given)
    if not sizes.num_kv_heads or num_heads % sizes.num_kv_heads:
        raise section.error(keys["num_kv_heads"], f"must divide {num_heads}")
    return sizes
