"""Safe reader of HyperPyYAML files, which ignores their tags and creates no objects.

Such a file is a program: ``!new:module.Class`` calls the class. This reader drops the tag, keeps
the arguments below it, and replaces ``!ref <name>`` by the number assigned to ``name``.
"""

import math
import re
from pathlib import Path
from typing import Any

import yaml

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError

_NAME = re.compile(r"<([\w.]+)>")
_MAX_BYTES = 1 << 20


class _Reference(str):
    """The text of a ``!ref``, before it is resolved."""

    __slots__ = ()


class _HyperLoader(yaml.SafeLoader):  # type: ignore[misc]
    """A safe loader that accepts tags other than YAML's own."""


def _untagged(loader: yaml.SafeLoader, _: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    return (
        loader.construct_sequence(node, deep=True) if isinstance(node, yaml.SequenceNode) else None
    )


def _reference(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    assert isinstance(node, yaml.ScalarNode)
    return _Reference(loader.construct_scalar(node))


_HyperLoader.add_multi_constructor("!", _untagged)
_HyperLoader.add_constructor("!ref", _reference)


def read_hyper_yaml(file: Path) -> ConfigSection:
    """Read a file of a YAML mapping; raises ModelLoadError."""
    try:
        content = file.read_bytes()
        if len(content) > _MAX_BYTES:
            raise ModelLoadError(f"{file}: is too large for a configuration")
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(content)):
            raise ModelLoadError(f"{file}: has aliases, by which a short file can be endless")
        values = yaml.load(content, _HyperLoader)
        resolved = _resolved(values, values) if isinstance(values, dict) else None
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise ModelLoadError(f"{file}: cannot be read: {error}") from error
    if resolved is None:
        raise ModelLoadError(f"{file}: must hold an object")
    return ConfigSection(file, "", resolved)


def _resolved(value: Any, top: dict[str, Any]) -> Any:
    if isinstance(value, _Reference):
        return _product(value, top)
    if isinstance(value, dict):
        return {str(name): _resolved(each, top) for name, each in value.items()}
    if isinstance(value, list):
        return [_resolved(each, top) for each in value]
    return value


def _product(reference: str, top: dict[str, Any]) -> Any:
    """Return the value of ``<name>`` or of a product of names and numbers; else ``None``."""
    factors: list[Any] = []
    for part in map(str.strip, reference.split("*")):
        found = _NAME.fullmatch(part)
        factors.append(top.get(found[1]) if found else int(part) if part.isdigit() else None)
    if len(factors) == 1:
        return None if isinstance(factors[0], dict | list | _Reference) else factors[0]
    is_product = all(isinstance(each, int | float) for each in factors)
    return math.prod(factors) if is_product else None
