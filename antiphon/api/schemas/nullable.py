"""Schemas of models whose nulls mean the default."""

from typing import Any


def _allow_nulls(schema: dict[str, Any]) -> None:
    """Let every member that has a default be null."""
    required = schema.get("required", ())
    for name, described in schema.get("properties", {}).items():
        if name not in required:
            allow_null(described)


def allow_null(described: dict[str, Any]) -> None:
    """Let a member be null, if its schema does not already."""
    if "anyOf" in described:
        kinds = described["anyOf"]
        if {"type": "null"} not in kinds:
            kinds.append({"type": "null"})
        return
    annotations = ("title", "description", "default", "examples")
    kind = {name: described.pop(name) for name in [*described] if name not in annotations}
    if kind:  # nothing at all allows null too
        described["anyOf"] = [kind, {"type": "null"}]


NULLS_MEAN_DEFAULTS = _allow_nulls
"""For ``json_schema_extra`` of a model's configuration."""
