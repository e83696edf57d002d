"""Registry of families, imported on demand."""

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from antiphon.contracts.config_file import quantized_error, read_json_object
from antiphon.contracts.family import Family, Ref
from antiphon.errors import ModelLoadError
from antiphon.families.installed import installed_checkpoint, installed_models
from antiphon.families.kit.formats.gguf_file import read_gguf
from antiphon.families.kit.hub import NEEDED_FILES, download, is_hub_id
from antiphon.families.qwen3_tts.task_api import SpeechTasks

__all__ = ["FAMILIES", "SpeechTasks", "families", "family", "resolve"]

FAMILIES: dict[str, str] = {
    "causal_lm": "antiphon.families.causal_lm:FAMILY",
    "cosyvoice3": "antiphon.families.cosyvoice3:FAMILY",
    "fish_speech": "antiphon.families.fish_speech:FAMILY",
    "glm_image": "antiphon.families.glm_image:FAMILY",
    "hibari": "antiphon.families.hibari:FAMILY",
    "kokoro": "antiphon.families.kokoro:FAMILY",
    "mimo_audio": "antiphon.families.mimo_audio:FAMILY",
    "moss_tts_nano": "antiphon.families.moss_tts_nano:FAMILY",
    "ovis_image": "antiphon.families.ovis_image:FAMILY",
    "piper": "antiphon.families.piper:FAMILY",
    "qwen3_tts": "antiphon.families.qwen3_tts:FAMILY",
    "qwen_image": "antiphon.families.qwen_image:FAMILY",
    "toy": "antiphon.families.toy:FAMILY",
    "voxcpm2": "antiphon.families.voxcpm2:FAMILY",
    "wan_video": "antiphon.families.wan_video:FAMILY",
}
DEFAULT_FAMILY = "hibari"

_PIPELINE = "model_index.json"  # Index file of a diffusers checkpoint with several components
_POINTER, _MAX_POINTER_BYTES = b"version https://git-lfs.github.com/spec/", 1024
_ARCHITECTURE_KEYS = ("architectures", "model_type", "architecture")
_CACHED = re.compile(r"/models--(?P<organization>[^/]+?)--(?P<name>[^/]+)/snapshots/")


def families() -> list[Family]:
    return [family(name) for name in FAMILIES]


def family(name: str) -> Family:
    """Return the family of this name; raises ModelLoadError."""
    if name not in FAMILIES:
        names = (*FAMILIES, *sorted(installed_models().names))
        near = get_close_matches(name, names, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        needy = {each.name for each in families() if each.needs_checkpoint}
        built_in = ", ".join(each for each in names if each not in needy)
        raise ModelLoadError(
            f"Unknown model '{name}'.{hint} Built in: {built_in};"
            " or give the directory of a checkpoint, or its ORG/NAME on the Hugging Face hub."
        )
    found = Ref(FAMILIES[name]).resolve()
    assert isinstance(found, Family)
    return found


def resolve(model: str | None) -> tuple[Family, Path | None]:
    """Return the family that serves ``model``, and its checkpoint, downloaded if it is not here.

    Args:
        model: name of a family or installed model, directory of a checkpoint, or ``ORG/NAME`` or
            ``ORG/NAME@REVISION`` of the hub; ``None``: the default family.

    Returns:
        Family and path; the path is ``None`` for a family that ships its weights.

    Raises:
        ModelLoadError: the family or checkpoint does not exist, config.json is not readable, the
            architecture is unknown, or a required package is not installed.
    """
    model = model or DEFAULT_FAMILY
    path = checkpoint_directory(installed_checkpoint(model) or Path(model).expanduser())
    if model in FAMILIES or not (path.is_dir() or is_hub_id(model)):
        if "/" in model:
            raise ModelLoadError(f"There is no directory '{model}'.")
        found = family(model)
        if found.needs_checkpoint:
            raise ModelLoadError(f"'{model}' needs weights: give the directory of a checkpoint.")
        return found, None
    if not path.is_dir():
        path = download(model, hub_patterns())
    found = checkpoint_family(path)
    if found.extra is not None and found.extra.missing:
        raise ModelLoadError(found.extra.missing)
    return found, path


def checkpoint_directory(path: Path) -> Path:
    """Return ``path``, or the directory made from its only GGUF file; raises ModelLoadError."""
    files = [path]
    if path.is_dir():
        files = [] if any(path.glob("*.safetensors")) else [*path.glob("*.gguf")]
    if len(files) != 1 or files[0].suffix != ".gguf":
        return path
    content = read_gguf(files[0])
    for each in families():
        if each.gguf and each.extra and each.extra.missing:
            raise ModelLoadError(each.extra.missing)
        if each.gguf and (found := each.gguf.resolve()(content)):
            return Path(found)
    raise quantized_error(files[0], f"GGUF ('{content.architecture}')")


def hub_patterns() -> list[str]:
    """Return the patterns of files that a checkpoint of any family may need."""
    return [*NEEDED_FILES, *(pattern for each in families() for pattern in each.files)]


def checkpoint_family(path: Path) -> Family:
    """Return the family that serves the checkpoint in a directory; raises ModelLoadError."""
    _refuse_pointers(path)
    by_layout = _family_by_layout(path)
    if by_layout and not any((path / name).exists() for name in ("config.json", _PIPELINE)):
        return by_layout
    config, fields = _configuration(path)
    keys = ("_class_name",) if config.name == _PIPELINE else _ARCHITECTURE_KEYS
    declared: Any = next((fields[key] for key in keys if fields.get(key)), [])
    names = [declared] if isinstance(declared, str) else [str(name) for name in declared]
    for candidate in families():
        is_alike = bool(candidate.config_keys) and fields.keys() >= set(candidate.config_keys)
        if set(candidate.architectures) & set(names) or (not names and is_alike):
            return candidate
    if by_layout:  # some files name an unused architecture, so that the hub counts downloads
        return by_layout
    if not names:
        raise ModelLoadError(f"{config}: cannot read '{keys[0]}': it is missing.")
    known = sorted(name for each in families() for name in each.architectures)
    whole = path.resolve().parent
    is_part = any((whole / name).exists() for name in ("config.json", _PIPELINE))
    hint = f" Did you mean '{whole}'?" if is_part else ""
    raise ModelLoadError(f"{path}: no family serves {names}.{hint} Known architectures: {known}.")


def served_name(model: str | None) -> str:
    """Return the default served name of ``model``: its last part."""
    model = model or DEFAULT_FAMILY
    path = Path(model).expanduser()
    if model not in FAMILIES and path.is_dir():
        return path.resolve().name
    return model.partition("@")[0].rpartition("/")[2]


def further_names(model: str | None, path: Path | None) -> frozenset[str]:
    """Return further names under which clients can address ``model``.

    These are its source, with and without a revision, and all spellings of its directory. No file
    is looked up.

    Args:
        model: source as in `resolve`.
        path: directory of the checkpoint; ``None``: the family ships its weights.
    """
    source = model or DEFAULT_FAMILY
    names = {source, source.partition("@")[0], served_name(source)}
    if path is not None:
        given = Path(source).expanduser()
        places = {path, path.resolve(), *((given, given.absolute()) if given.is_dir() else ())}
        names |= {plain_name(str(place)) for place in places} | {path.resolve().name}
        names.add(plain_name(source))
        # A snapshot in the hub's cache is below a directory that is named after the id.
        for found in _CACHED.finditer(str(path)):
            names |= {f"{found['organization']}/{found['name']}", found["name"]}
    return frozenset(names)


def plain_name(name: str) -> str:
    """Return a path without ``.``, ``..`` and empty parts; other names as they are."""
    return os.path.normpath(name) if "/" in name else name


def _family_by_layout(path: Path) -> Family | None:
    """Return the family whose characteristic files are in a directory."""
    for candidate in families():
        if candidate.layout and all(any(path.glob(each)) for each in candidate.layout):
            return candidate
    return None


def _refuse_pointers(path: Path) -> None:
    """Refuse a clone whose large files were not fetched; raises ModelLoadError."""
    for file in (*path.glob("*.*"), *path.glob("*/*.*")):
        is_small = file.is_file() and file.stat().st_size < _MAX_POINTER_BYTES
        if is_small and file.read_bytes().startswith(_POINTER):
            raise ModelLoadError(
                f"{file}: this is a Git LFS pointer, not the file itself. Fetch the files with"
                f" 'git lfs pull' in {path}, or with 'hf download'."
            )


def _no_checkpoint(path: Path) -> str:
    """Return why a directory without a configuration cannot be served, and what to do."""
    if any(path.glob("*.gguf")):
        return f"{path}: holds several GGUF files; give the path of one."
    if any(path.glob("*.onnx")) or any(path.glob("onnx/*.onnx")):
        return (
            f"{path}: there is no config.json beside the ONNX network. A Kokoro export needs the"
            " config.json of hexgrad/Kokoro-82M or onnx-community/Kokoro-82M-v1.0-ONNX, a Piper"
            " voice its NAME.onnx.json."
        )
    if snapshots := sorted(path.glob("snapshots/*")):
        _, _, id = path.resolve().name.partition("--")
        return (
            f"{path}: this is a folder of the Hugging Face hub's cache, not a checkpoint. Use"
            f" '{id.replace('--', '/')}' or '{snapshots[-1]}'."
        )
    nested = sorted(file.parent for file in path.glob("*/config.json"))
    hint = f" Did you mean '{nested[0]}'?" if nested else ""
    return (
        f"{path}: there is no checkpoint: neither config.json nor {_PIPELINE}, nor the files of a"
        f" family without these.{hint}"
    )


def _configuration(path: Path) -> tuple[Path, Mapping[str, Any]]:
    config = path / "config.json"
    if not config.exists() and (path / _PIPELINE).exists():
        config = path / _PIPELINE
    if not config.exists():
        raise ModelLoadError(_no_checkpoint(path))
    return config, read_json_object(config)
