"""Voice data of prompts, and the optional built-in voices in a checkpoint's spk2info.pt."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.errors import InvalidRequestError, ModelLoadError
from antiphon.families.cosyvoice3.config import MEL_FRAMES_PER_TOKEN, CosyVoice3Config
from antiphon.families.cosyvoice3.options import FAMILY_NAME

VOICES_FILE = "spk2info.pt"
_SPEAKER = ("flow_embedding", "embedding")
_TOKENS, _MEL, _TEXT = "flow_prompt_speech_token", "prompt_speech_feat", "prompt_text"


@dataclass(frozen=True, slots=True, eq=False)
class SpokenVoice:
    """Voice data of prompts.

    Attributes:
        speaker: speaker vector, f32 ``[speaker_size]``.
        tokens: reference tokens, int64 ``[num_tokens]``; empty without reference audio.
        mel: reference mel frames, f32 ``[2 * num_tokens, num_mels]``.
        ref_text: transcript of the reference audio; ``None``: unknown.
        text_ids: ids of prompt beginning and transcript; only in built-in voices.
    """

    speaker: NDArray[np.float32]
    tokens: NDArray[np.int64]
    mel: NDArray[np.float32]
    ref_text: str | None = None
    text_ids: tuple[int, ...] = ()


def voice_of(config: CosyVoice3Config, prepared: PreparedVoice) -> SpokenVoice:
    """Return the voice data of a prepared voice; raises InvalidRequestError for another model's."""
    speaker, codes = prepared.speaker_embedding, prepared.ref_codes
    features, flow = prepared.ref_features, config.flow
    if prepared.family != FAMILY_NAME or speaker is None or speaker.shape != (flow.speaker_size,):
        raise InvalidRequestError(
            f"The voice '{prepared.name}' was prepared for '{prepared.family}'; this model needs"
            f" one prepared for '{FAMILY_NAME}', with a speaker vector of {flow.speaker_size}.",
            param="ref_audio",
        )
    if codes is None or features is None:
        return SpokenVoice(speaker, np.zeros(0, np.int64), np.zeros((0, flow.num_mels), np.float32))
    fits = codes.shape[1] == 1 and codes.max() < config.num_tokens
    if not fits or features.shape != (MEL_FRAMES_PER_TOKEN * len(codes), flow.num_mels):
        raise InvalidRequestError(
            f"The voice '{prepared.name}' must have tokens below {config.num_tokens} and"
            f" {MEL_FRAMES_PER_TOKEN} frames of {flow.num_mels} bands for each.",
            param="ref_audio",
        )
    return SpokenVoice(speaker, codes[:, 0], features, prepared.ref_text)


def load_voices(path: Path, config: CosyVoice3Config) -> Mapping[str, SpokenVoice]:
    """Read the built-in voices of a checkpoint; empty without the file; raises ModelLoadError."""
    file = path / VOICES_FILE
    if not file.is_file():
        return {}
    from antiphon.families.kit.formats.torch_file import read_torch_file

    found = read_torch_file(file)
    if not isinstance(found, dict):
        raise ModelLoadError(f"{file}: is no dictionary of voices")
    voices = {}
    for name, stored in found.items():
        if not isinstance(name, str) or not name.strip() or not isinstance(stored, dict):
            raise ModelLoadError(f"{file}: is no dictionary of voices")
        voices[name] = _stored_voice(file, name, stored, config)
    return voices


def _stored_voice(
    file: Path, name: str, stored: dict[str, Any], config: CosyVoice3Config
) -> SpokenVoice:
    arrays = {key: _array(stored.get(key)) for key in (*_SPEAKER, _TOKENS, _MEL, _TEXT)}
    speaker = next((arrays[key] for key in _SPEAKER if arrays[key] is not None), None)
    flow = config.flow
    if speaker is None or speaker.size != flow.speaker_size or not np.isfinite(speaker).all():
        size = flow.speaker_size
        raise ModelLoadError(f"{file}: '{name}' has no speaker vector of {size} numbers")
    tokens, mel, text = arrays[_TOKENS], arrays[_MEL], arrays[_TEXT]
    if tokens is None or mel is None:
        tokens, mel = np.zeros(0, np.int64), np.zeros((0, flow.num_mels), np.float32)
    tokens, mel = tokens.reshape(-1).astype(np.int64), mel.reshape(-1, flow.num_mels)
    is_known = not tokens.size or (tokens.min() >= 0 and tokens.max() < config.num_tokens)
    if not is_known or len(mel) != MEL_FRAMES_PER_TOKEN * len(tokens):
        raise ModelLoadError(f"{file}: tokens and frames of '{name}' do not fit together")
    ids = () if text is None else tuple(int(each) for each in text.reshape(-1))
    if ids and not (min(ids) >= 0 and max(ids) < config.text_vocab_size):
        raise ModelLoadError(f"{file}: the text of '{name}' has unknown ids")
    return SpokenVoice(
        speaker.reshape(-1).astype(np.float32), tokens, mel.astype(np.float32), text_ids=ids
    )


def _array(value: Any) -> NDArray[Any] | None:
    from torch import Tensor

    return value.float().numpy() if isinstance(value, Tensor) and value.numel() else None


def reference_arrays(
    tokens: NDArray[np.int64], mel: NDArray[np.float32], speaker: NDArray[np.float32]
) -> dict[str, NDArray[Any]]:
    """Return the conditioning of a request: arrays as of `SpokenVoice`."""
    assert len(mel) == MEL_FRAMES_PER_TOKEN * len(tokens)
    return {"tokens": tokens, "mel": mel, "speaker": speaker}
