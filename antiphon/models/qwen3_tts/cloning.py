"""What a base checkpoint imitates: a speaker vector alone, or a recording with its words."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.errors import InvalidRequestError
from antiphon.models.qwen3_tts.config import Qwen3TTSConfig
from antiphon.models.qwen3_tts.options import PreparedVoice, Qwen3TTSOptions

PrepareVoice: TypeAlias = Callable[[bytes], PreparedVoice]
"""Hears an encoded recording; raises `InvalidRequestError` if it is none."""


@dataclass(frozen=True, slots=True, eq=False)
class Clone:
    """What the prompt says of the voice.

    Attributes:
        speaker: speaker vector, f32, ``[hidden_size]``.
        codes: frames of the recording, int64, ``[num_frames, num_groups]``; ``None`` if the vector
            is all that is used.
        text: what the recording says; ``""`` without codes.
    """

    speaker: NDArray[np.float32]
    codes: NDArray[np.int64] | None = None
    text: str = ""


def choose_clone(
    config: Qwen3TTSConfig, options: Qwen3TTSOptions, prepare_voice: PrepareVoice | None
) -> Clone:
    """Find out what to imitate.

    Raises:
        InvalidRequestError: there is nothing, too much, or not what the checkpoint needs.
    """
    if options.speaker_embedding is not None:
        if options.ref_audio is not None:
            raise InvalidRequestError(
                "'speaker_embedding' and 'ref_audio' are mutually exclusive.",
                param="speaker_embedding",
            )
        return Clone(_speaker(config, np.array(options.speaker_embedding, np.float32)))
    voice = _voice(options, prepare_voice)
    speaker = _speaker(config, voice.speaker)
    if options.x_vector_only_mode or voice.codes is None:
        return Clone(speaker)
    text = options.ref_text or voice.text
    if text is not None and text.strip():
        return Clone(speaker, _codes(config, voice.codes), text)
    is_stored = isinstance(options.ref_audio, PreparedVoice)
    if is_stored and options.x_vector_only_mode is None and options.ref_text is None:
        return Clone(speaker)  # a voice that was stored without its words
    raise InvalidRequestError(
        "Base task requires non-empty 'ref_text' (what the reference says) unless"
        " 'x_vector_only_mode' is true.",
        param="ref_text",
    )


def _voice(options: Qwen3TTSOptions, prepare_voice: PrepareVoice | None) -> PreparedVoice:
    if isinstance(options.ref_audio, PreparedVoice):
        return options.ref_audio
    if options.ref_audio is None:
        raise InvalidRequestError(
            "Base task requires 'ref_audio' or 'speaker_embedding' for voice cloning.",
            param="ref_audio",
        )
    if prepare_voice is None:
        raise InvalidRequestError(
            "This server does not take recordings in requests.", param="ref_audio"
        )
    return prepare_voice(options.ref_audio)


def _speaker(config: Qwen3TTSConfig, speaker: NDArray[np.float32]) -> NDArray[np.float32]:
    wanted = config.talker.transformer.hidden_size
    if speaker.shape != (wanted,):
        raise InvalidRequestError(
            f"'speaker_embedding' has {speaker.size} values; this checkpoint needs {wanted}.",
            param="speaker_embedding",
        )
    return speaker


def _codes(config: Qwen3TTSConfig, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Refuse codes that would be looked up outside their tables: they may come from a file."""
    has_shape = codes.ndim == 2 and codes.shape[1] == config.talker.num_groups and len(codes) > 0
    if not (has_shape and codes.min() >= 0 and codes.max() < config.predictor.vocab_size):
        raise InvalidRequestError(
            f"The reference's codes must be a table of {config.talker.num_groups} columns"
            f" of numbers from 0 to {config.predictor.vocab_size - 1}.",
            param="ref_audio",
        )
    return codes
