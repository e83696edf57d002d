"""Voices from a checkpoint's file of speakers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.families.causal_lm.omni.config import SPEAKERS, OmniConfig


@dataclass(frozen=True, slots=True, eq=False)
class OmniVoice:
    """A voice.

    Attributes:
        bos_token: thinker id after which the talker begins.
        vector: speaker vector, f32 ``[enc_emb_dim]``.
        ref_mel: reference mel spectrogram, f32 ``[num_frames, mel_dim]``.
    """

    bos_token: int
    vector: Tensor
    ref_mel: Tensor


def load_voices(path: Path, config: OmniConfig) -> Mapping[str, OmniVoice]:
    """Read the speakers in a checkpoint's directory, the default one first; raises ModelLoadError.

    The file is a pickle, of which only tensors and plain types are read.
    """
    file = path / SPEAKERS
    try:
        table: Any = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, ValueError, UnpicklingError) as error:
        raise ModelLoadError(f"{file}: cannot be read as a table of speakers.") from error
    if not isinstance(table, dict) or not table:
        raise ModelLoadError(f"{file}: is no table of speakers.")
    return {str(name): _voice(file, str(name), each, config) for name, each in table.items()}


def _voice(file: Path, name: str, speaker: Any, config: OmniConfig) -> OmniVoice:
    flow = config.flow
    try:
        bos_token = int(speaker["bos_token"])
        vector = speaker["cond"].float().reshape(flow.enc_emb_dim)
        ref_mel = speaker["ref_mel"].float().reshape(-1, flow.mel_dim)
    except (TypeError, KeyError, ValueError, AttributeError, RuntimeError) as error:
        raise ModelLoadError(
            f"{file}: the speaker '{name}' must have 'bos_token', 'cond' of {flow.enc_emb_dim}"
            f" numbers and 'ref_mel' of frames of {flow.mel_dim}."
        ) from error
    if not 0 <= bos_token < config.thinker_vocab:
        raise ModelLoadError(f"{file}: the speaker '{name}' has no 'bos_token' of the thinker's.")
    return OmniVoice(bos_token, vector, ref_mel)
