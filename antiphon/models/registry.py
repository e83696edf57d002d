"""The families, one line each; nothing is imported until a family is asked for."""

import json
from difflib import get_close_matches
from pathlib import Path

from antiphon.errors import ModelLoadError
from antiphon.models.spec import Family, Ref

FAMILIES: dict[str, str] = {
    "hibari": "antiphon.models.hibari:FAMILY",
    "qwen3_tts": "antiphon.models.qwen3_tts:FAMILY",
    "toy": "antiphon.models.toy:FAMILY",
}
DEFAULT_FAMILY = "hibari"


def families() -> list[Family]:
    """Import and return every family."""
    return [family(name) for name in FAMILIES]


def family(name: str) -> Family:
    """Return the family of this name.

    Raises:
        ModelLoadError: there is none; the message suggests the nearest.
    """
    if name not in FAMILIES:
        near = get_close_matches(name, FAMILIES, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ModelLoadError(
            f"Unknown model '{name}'.{hint} Built in: {', '.join(FAMILIES)};"
            " or give the directory of a checkpoint."
        )
    found = Ref(FAMILIES[name]).resolve()
    assert isinstance(found, Family)
    return found


def resolve(model: str | None) -> tuple[Family, Path | None]:
    """Return the family that serves ``model``: a family's name or a checkpoint's directory.

    ``None`` is the default family. The path is ``None`` for a family that ships its weights.

    Raises:
        ModelLoadError: no such family, no readable config.json, or an unknown architecture.
    """
    model = model or DEFAULT_FAMILY
    path = Path(model).expanduser()
    if model in FAMILIES or not path.is_dir():
        found = family(model)
        if found.needs_checkpoint:
            raise ModelLoadError(f"'{model}' needs weights: give the directory of a checkpoint.")
        return found, None
    architectures = _architectures(path)
    for candidate in families():
        if set(candidate.architectures) & set(architectures):
            return candidate, path
    known = sorted(name for each in families() for name in each.architectures)
    raise ModelLoadError(
        f"{path}: no family serves {architectures}. Known architectures: {known or 'none'}."
    )


def _architectures(path: Path) -> list[str]:
    config = path / "config.json"
    try:
        declared = json.loads(config.read_text(encoding="utf-8"))["architectures"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelLoadError(f"{config}: cannot read 'architectures': {error}") from error
    return [str(name) for name in declared]
