"""Reader of placement files: YAML with the lines of its entries, overlays, and single entries."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from pydantic import ValidationError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from antiphon.errors import SettingsError
from antiphon.placement.schema import PlacementFile

KeyPath: TypeAlias = tuple[str | int, ...]

_SUFFIXES = (".yaml", ".yml", ".json")
_KEY = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^."']+))\s*(?:\.|$)""")
_SHORT_KEYS = {"stage": "stages", "model": "models", "group": "groups"}
_MAX_EXTENDS = 8


@dataclass(frozen=True)
class Document:
    """A placement as it is written; it may be wrong."""

    values: dict[str, Any] = field(default_factory=dict)
    places: dict[KeyPath, str] = field(default_factory=dict)

    def under(self, other: "Document") -> "Document":
        """Return this one with ``other`` laid over it: mappings are merged, all else replaced."""
        values = merged(self.values, other.values)
        return Document(values, {**self.places, **other.places})

    def place_of(self, path: KeyPath) -> str:
        """Return where an entry is, or the nearest one around it."""
        for length in range(len(path), -1, -1):
            if (place := self.places.get(path[:length])) is not None:
                return f"{place}: "
        return ""


def read_placement(sources: Iterable[str], entries: Iterable[str] = ()) -> PlacementFile:
    """Merge and check placements; raises SettingsError.

    Args:
        sources: profiles' names, files, or YAML itself (in braces); later ones win.
        entries: overrides such as ``stage.talker.replicas=2``, which win over all sources.
    """
    document = Document()
    for source in sources:
        document = document.under(read_document(source))
    for entry in entries:
        document = document.under(_entry(entry))
    return checked(document)


def checked(document: Document) -> PlacementFile:
    """Return the contents of a document; raises SettingsError."""
    document.values.pop("extends", None)
    try:
        return PlacementFile.model_validate(document.values)
    except ValidationError as error:
        wrong = [_explain(document, dict(each)) for each in error.errors()]
        raise SettingsError("; ".join(wrong)) from error


def read_document(source: str, folder: Path = Path(), *, depth: int = 0) -> Document:
    """Read a profile, a file, or YAML itself, with what it extends; raises SettingsError.

    Args:
        source: name of a profile, path of a file, or YAML text that begins with a brace.
        folder: folder to which relative paths refer.
        depth: documents that extend this one.
    """
    if source.lstrip().startswith("{"):
        document = parse(source, "placement")
    else:
        path = _find(source, folder)
        try:
            document = parse(path.read_text(encoding="utf-8"), source)
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{source}: {error}") from error
        folder = path.parent
    extended = document.values.get("extends") or ()
    bases = [extended] if isinstance(extended, str) else extended
    if depth > _MAX_EXTENDS:
        raise SettingsError(f"{source}: extends itself, or more than {_MAX_EXTENDS} deep.")
    below = Document()
    for base in bases:
        below = below.under(read_document(str(base), folder, depth=depth + 1))
    return below.under(document)


def profiles() -> dict[str, Path]:
    """Return the shipped placements by name."""
    folder = resources.files("antiphon.placement") / "profiles"
    assert isinstance(folder, Path), "the package is installed as files"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def parse(text: str, source: str) -> Document:
    """Read YAML; a key that is given twice is an error; raises SettingsError."""
    document = Document(places={(): source})
    try:
        node = yaml.compose(text, yaml.SafeLoader)
        if node is None:
            return document
        _take_places(node, (), source, document.places)
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"{source}: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise SettingsError(f"{source}: a placement is a mapping of keys to values.")
    return Document(values, document.places)


def _find(source: str, folder: Path) -> Path:
    known = profiles()
    if source in known:
        return known[source]
    path = folder / Path(source).expanduser()
    if not path.is_file():
        kind = "file" if source.endswith(_SUFFIXES) or "/" in source else "profile or file"
        raise SettingsError(f"There is no {kind} '{source}'. Profiles: {', '.join(known)}.")
    return path


def _take_places(node: Node, path: KeyPath, source: str, places: dict[KeyPath, str]) -> None:
    places[path] = f"{source}:{node.start_mark.line + 1}"
    if isinstance(node, SequenceNode):
        for index, each in enumerate(node.value):
            _take_places(each, (*path, index), source, places)
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            name = key.value if isinstance(key, ScalarNode) else str(key)
            if (*path, name) in places:
                raise SettingsError(f"{source}:{key.start_mark.line + 1}: '{name}' is given twice.")
            _take_places(value, (*path, name), source, places)
            places[*path, name] = f"{source}:{key.start_mark.line + 1}"


def merged(below: Any, above: Any) -> Any:
    """Return one value laid over another: mappings are merged by key, all else is replaced."""
    if not (isinstance(below, Mapping) and isinstance(above, Mapping)):
        return above
    both = dict(below)
    for key, value in above.items():
        both[key] = merged(both[key], value) if key in both else value
    return both


def _entry(text: str) -> Document:
    """Read ``stage.talker.replicas=2``; a name with dots in it is quoted."""
    name, equals, value = text.partition("=")
    keys: list[str] = []
    at = 0
    while found := _KEY.match(name, at) if at < len(name) else None:
        keys.append(next(group for group in found.groups() if group is not None).strip())
        at = found.end()
    if not equals or not keys or at < len(name):
        raise SettingsError(f"--set {text}: write it as stage.talker.replicas=2.")
    keys[0] = _SHORT_KEYS.get(keys[0], keys[0])
    if keys[0] == "models" and len(keys) > 2:
        keys[2] = _SHORT_KEYS.get(keys[2], keys[2])
    try:
        values = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise SettingsError(f"--set {text}: {' '.join(str(error).split())}") from error
    for key in reversed(keys):
        values = {key: values}
    return Document(values, {tuple(keys): f"--set {text}"})


def _explain(document: Document, error: Mapping[str, Any]) -> str:
    path = tuple(error["loc"])
    place, name = document.place_of(path), ".".join(str(part) for part in path)
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        message = f"unknown entry. {_nearest(path)}"
    elif error["type"] == "string_pattern_mismatch":
        message = "a device is cpu, cuda, cuda:N, auto or all"
    return f"{place}{name}: {message}"


def _nearest(path: KeyPath) -> str:
    """Return the entries that are valid at the place of an unknown one."""
    from difflib import get_close_matches

    from antiphon.placement.schema import GroupSection, ModelSection, ReplicaRange, StageSection

    *around, last = [str(part) for part in path]
    known: Iterable[str] = PlacementFile.model_fields
    if around and around[-1] == "replicas":
        known = ReplicaRange.model_fields
    elif around and around[0] == "models" and len(around) == 2:
        known = ModelSection.model_fields
    elif "groups" in around[:3:2]:
        known = GroupSection.model_fields
    elif around:
        known = StageSection.model_fields
    near = get_close_matches(last, known, n=1)
    hint = f"Did you mean '{near[0]}'? " if near else ""
    return f"{hint}Allowed: {', '.join(known)}."
