"""What a checkpoint's voice is, by its configuration and its files' headers; reads no tensor."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from antiphon.errors import ModelLoadError
from antiphon.families.causal_lm.omni.checkpoint_schema import (
    NOT_OF_TALKER,
    NOT_OF_TOKEN2WAV,
    talker_layout,
    token2wav_layout,
)
from antiphon.families.causal_lm.omni.config import (
    SAMPLE_RATE_HZ,
    OmniConfig,
    has_voice,
    load_omni_config,
)
from antiphon.nn.safetensors_index import TensorHeader, layout_problems

PARTS = ("talker", "token2wav")
"""Components, which the names of their tensors begin with."""


@dataclass(frozen=True, slots=True)
class VoiceInfo:
    """What is told of a voice.

    Attributes:
        facts: see `antiphon.contracts.family.Inspection`.
        problems: likewise.
    """

    facts: Mapping[str, str | int | tuple[str, ...]]
    problems: tuple[str, ...] = ()


def inspect_voice(path: Path, headers: Mapping[str, TensorHeader]) -> VoiceInfo | None:
    """Return what of a checkpoint speaks; ``None``: it has no voice, or none that is to be used."""
    try:
        if not has_voice(path):
            return None
        config = load_omni_config(path)
    except ModelLoadError as error:
        return VoiceInfo({}, (error.message,))
    problems = []
    wanted = {NOT_OF_TALKER: talker_layout(config), NOT_OF_TOKEN2WAV: token2wav_layout(config)}
    for others, layout in wanted.items():
        found = {
            name: each.shape for name, each in headers.items() if not re.fullmatch(others, name)
        }
        problems += [f"{path}: tensors {each}" for each in layout_problems(found, layout)]
    sizes = config.talker.transformer
    facts: dict[str, str | int | tuple[str, ...]] = {
        "Talker": f"{sizes.num_layers} layers of width {sizes.hidden_size},"
        f" {SAMPLE_RATE_HZ / config.samples_per_code:g} codes a second",
    }
    try:
        if find_spec("torch"):
            facts["Voices"] = _names(path, config)
    except ModelLoadError as error:
        problems.append(error.message)
    return VoiceInfo(facts, tuple(problems))


def _names(path: Path, config: OmniConfig) -> tuple[str, ...]:
    from antiphon.families.causal_lm.omni.voices import load_voices

    return tuple(load_voices(path, config))
