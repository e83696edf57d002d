"""Voice cloning of base checkpoints: a speaker vector alone, or a recording with its transcript."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.errors import InvalidRequestError
from antiphon.families.kit.cloned_voices import CODES, SPEAKER
from antiphon.families.qwen3_tts.config import Qwen3TTSConfig
from antiphon.families.qwen3_tts.options import FAMILY_NAME, Qwen3TTSOptions

_NAME = "reference"


@dataclass(frozen=True, slots=True, eq=False)
class Clone:
    """Voice part of a prompt.

    Attributes:
        speaker: speaker vector, f32, ``[hidden_size]``.
        codes: frames of the recording, int64, ``[num_frames, num_groups]``; ``None``: only the
            speaker vector is used.
        text: transcript of the recording; ``""`` without codes.
    """

    speaker: NDArray[np.float32]
    codes: NDArray[np.int64] | None = None
    text: str = ""


def choose_clone(
    config: Qwen3TTSConfig, options: Qwen3TTSOptions, prepare: Callable[..., PreparedVoice]
) -> Clone:
    """Return the voice to imitate, by `prepare_parts`; raises InvalidRequestError."""
    reference = options.ref_audio
    if options.speaker_embedding is not None:
        if reference is not None:
            raise InvalidRequestError(
                "'speaker_embedding' and 'ref_audio' are mutually exclusive.",
                param="speaker_embedding",
            )
        return Clone(_speaker(config, np.array(options.speaker_embedding, np.float32)))
    if reference is None:
        raise InvalidRequestError(
            "Base task requires 'ref_audio' or 'speaker_embedding' for voice cloning.",
            param="ref_audio",
        )
    if isinstance(reference, PreparedVoice):
        return _of_voice(config, reference, options)
    with_codes = not options.x_vector_only_mode
    if with_codes:
        _check_text(options.ref_text)
    wanted = [SPEAKER, CODES] if with_codes else [SPEAKER]
    voice = prepare(reference, wanted, name=_NAME, ref_text=options.ref_text)
    return _of_voice(config, voice, options)


def _of_voice(config: Qwen3TTSConfig, voice: PreparedVoice, options: Qwen3TTSOptions) -> Clone:
    """Return the parts of a voice that exist and that the request allows."""
    if voice.family != FAMILY_NAME or voice.speaker_embedding is None:
        raise InvalidRequestError(
            f"The voice '{voice.name}' was prepared for '{voice.family}' or has no speaker"
            f" embedding; this model needs one with, prepared for '{FAMILY_NAME}'.",
            param="ref_audio",
        )
    speaker = _speaker(config, voice.speaker_embedding)
    if options.x_vector_only_mode or voice.ref_codes is None:
        return Clone(speaker)
    text = options.ref_text or voice.ref_text
    if text is None and options.x_vector_only_mode is None:
        return Clone(speaker)  # a voice prepared without a transcript
    return Clone(speaker, _codes(config, voice.ref_codes), _check_text(text))


def _check_text(text: str | None) -> str:
    if text is None or not text.strip():
        raise InvalidRequestError(
            "Base task requires non-empty 'ref_text' (transcript of the reference) unless"
            " 'x_vector_only_mode' is true.",
            param="ref_text",
        )
    return text


def _speaker(config: Qwen3TTSConfig, speaker: NDArray[np.float32]) -> NDArray[np.float32]:
    wanted = config.talker.transformer.hidden_size
    if speaker.shape != (wanted,):
        raise InvalidRequestError(
            f"'speaker_embedding' has {speaker.size} values; this checkpoint needs {wanted}.",
            param="speaker_embedding",
        )
    return speaker


def _codes(config: Qwen3TTSConfig, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Refuse codes outside of their tables: they may come from a file."""
    has_shape = codes.ndim == 2 and codes.shape[1] == config.talker.num_groups and len(codes) > 0
    if not (has_shape and codes.min() >= 0 and codes.max() < config.predictor.vocab_size):
        raise InvalidRequestError(
            f"The reference's codes must be a table of {config.talker.num_groups} columns"
            f" of numbers from 0 to {config.predictor.vocab_size - 1}.",
            param="ref_audio",
        )
    return codes
