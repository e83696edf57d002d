"""Tells what a checkpoint is without loading it."""

import re
from pathlib import Path

from antiphon.contracts.inspection import Inspection, Table
from antiphon.errors import ModelLoadError
from antiphon.families.fish_speech.checkpoint_schema import (
    CODEC_FILE,
    PICKLED_FILE,
    is_s2_name,
    layout_of,
    s2_name,
    tied,
    unread,
)
from antiphon.families.fish_speech.config import (
    LICENCE,
    SAMPLE_RATE_HZ,
    SAMPLES_PER_FRAME,
    FishSpeechConfig,
    Layout,
    load_config,
)
from antiphon.nn.safetensors_index import layout_problems, read_directory, tied_problems

_TITLES = {Layout.S2: "Fish Speech S2", Layout.S1: "Fish Speech S1"}


def inspect(path: Path) -> Inspection:
    """Return what a checkpoint's directory holds, complete or not."""
    problems: list[str] = []
    told: dict[str, str | int] = {"Model": "Fish Speech"}
    try:
        config = load_config(path)
        told = _told(config)
        problems += _problems(path, config)
    except ModelLoadError as error:
        problems.append(error.message)
    if not (path / CODEC_FILE).is_file():
        problems.append(f"{path}: there is no {CODEC_FILE}")
    files = sorted(file for file in path.rglob("*") if file.is_file())
    rows = tuple((file.relative_to(path).as_posix(), file.stat().st_size) for file in files)
    return Inspection(
        facts={**told, "Weights' licence": LICENCE},
        tables=(Table(title="Files", columns=("File", "Bytes"), rows=rows),),
        problems=tuple(problems),
    )


def _told(config: FishSpeechConfig) -> dict[str, str | int]:
    """Return what the configuration says of itself."""
    slow, fast = config.slow, config.fast
    return {
        "Model": _TITLES[config.layout],
        "Slow model": f"{slow.num_layers} layers of {slow.hidden_size}",
        "Fast model": f"{fast.num_layers} layers of {fast.hidden_size}",
        "Audio": f"{SAMPLE_RATE_HZ} Hz, {SAMPLE_RATE_HZ / SAMPLES_PER_FRAME:.1f} frames a second"
        f" of {config.num_codebooks} codes",
        "Semantic codes": config.tokens.num_semantic,
        "Voices": "from recordings, or drawn by the seed",
    }


def _problems(path: Path, config: FishSpeechConfig) -> list[str]:
    """Compare the tensors of safetensors files with the configuration, by their headers.

    A model.pth is compared when it is loaded.
    """
    if (path / PICKLED_FILE).is_file() and not any(path.glob("model*.safetensors*")):
        return []
    others = re.compile(unread(config))
    headers = read_directory(path)
    shapes = {
        name: header.shape for name, (_, header) in headers.items() if not others.fullmatch(name)
    }
    layout = layout_of(config)
    if any(map(is_s2_name, shapes)):
        layout = {s2_name(name): shape for name, shape in layout.items()}
    problems = [f"{path}: tensors {each}" for each in layout_problems(shapes, layout)]
    untied = tied_problems(headers, tied(config, headers))
    return problems + [f"{path}: tensors: {each}" for each in untied]
