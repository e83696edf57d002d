"""Encoder stage: speaker vector, speech tokens and mel frames of reference audio."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from antiphon.audio.resample import resampled
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents, Samples
from antiphon.errors import EngineError, ModelLoadError
from antiphon.families.cosyvoice3.config import MEL_FRAMES_PER_TOKEN, load_config
from antiphon.families.cosyvoice3.features import (
    SPEECH_RATE_HZ,
    decoder_mel,
    speaker_fbank,
    whisper_mel,
)
from antiphon.families.cosyvoice3.voice_encoder_files import SPEAKER_NETWORK, TOKEN_NETWORK
from antiphon.families.kit.cloned_voices import (
    CODES,
    FEATURES,
    SPEAKER,
    Recording,
    RecordingLimits,
    warm_up_samples,
)
from antiphon.families.kit.onnx_errors import ONNX_ERRORS

_NUM_THREADS = 2
_MIN_RECORDING_S, _MAX_RECORDING_S = 0.5, 30.0
PARTS = (SPEAKER, CODES, FEATURES)


class CosyVoice3VoiceEncoder:
    """A `StageGenerator`; safe for threads. The networks run on the CPU, as published."""

    def __init__(self, context: LoadContext) -> None:
        """Load and warm up the networks; raises ModelLoadError if they cannot be loaded."""
        self._config = load_config(context.checkpoint)
        self._speaker = _session(context.checkpoint / SPEAKER_NETWORK, 1)
        self._tokens = _session(context.checkpoint / TOKEN_NETWORK, 2)
        rate_hz = self._config.sample_rate_hz
        self._limits = RecordingLimits(rate_hz, _MAX_RECORDING_S, _MIN_RECORDING_S)
        self.encode(Recording(warm_up_samples(rate_hz), PARTS))

    def generate(self, prompt: Prompt) -> Generator[Latents, None, None]:
        """Yield the features of the prompt's `Recording`; see `encode`."""
        yield self.encode(prompt.data)

    def encode(self, recording: Recording) -> Latents:
        """Return all features of a recording, including those that were not requested.

        The speaker vector is float32 ``[speaker_size]``; tokens are int64 ``[num_tokens, 1]``, 25
        per second; mel frames are float32 ``[2 * num_tokens, num_mels]``, 50 per second.

        Raises:
            InvalidRequestError: the recording is too short or too long.
            EngineError: the output of a network has the wrong shape or values.
        """
        self._limits.check(recording)
        config, samples = self._config, recording.samples
        speech = resampled(samples, config.sample_rate_hz, SPEECH_RATE_HZ)
        speaker, tokens = self._speaker_of(speech), self._tokens_of(speech)
        mel = decoder_mel(samples, config.flow.num_mels, config.sample_rate_hz)
        num_tokens = min(len(tokens), len(mel) // MEL_FRAMES_PER_TOKEN)
        return Latents(
            {
                SPEAKER: speaker,
                CODES: tokens[:num_tokens, None],
                FEATURES: mel[: MEL_FRAMES_PER_TOKEN * num_tokens],
            }
        )

    def close(self) -> None:
        """Do nothing: all memory is freed with the object."""

    def _speaker_of(self, speech: Samples) -> NDArray[np.float32]:
        (vector,) = _run(self._speaker, speaker_fbank(speech)[None])
        speaker = vector.reshape(-1).astype(np.float32)
        if speaker.shape != (self._config.flow.speaker_size,) or not np.isfinite(speaker).all():
            raise EngineError(f"{SPEAKER_NETWORK} gave no speaker vector of the checkpoint's size.")
        return speaker

    def _tokens_of(self, speech: Samples) -> NDArray[np.int64]:
        mel = whisper_mel(speech)
        (found,) = _run(self._tokens, mel[None], np.array([mel.shape[1]], np.int32))
        tokens = found.reshape(-1).astype(np.int64)
        if not tokens.size or tokens.min() < 0 or tokens.max() >= self._config.num_tokens:
            raise EngineError(f"{TOKEN_NETWORK} gave tokens that the checkpoint does not have.")
        return tokens


def _session(file: Path, num_inputs: int) -> Any:
    """Load a network into ONNX Runtime.

    Raises:
        ModelLoadError: it cannot be loaded, or its number of inputs is wrong.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = _NUM_THREADS
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # leaves CPU to others
    try:
        session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except ONNX_ERRORS as error:
        raise ModelLoadError(f"{file}: cannot be loaded: {error}") from error
    if (found := len(session.get_inputs())) != num_inputs:
        raise ModelLoadError(f"{file}: has {found} inputs instead of {num_inputs}")
    return session


def _run(session: Any, *inputs: NDArray[Any]) -> list[NDArray[Any]]:
    names = [each.name for each in session.get_inputs()]
    try:
        outputs: list[NDArray[Any]] = session.run(None, dict(zip(names, inputs, strict=True)))
    except ONNX_ERRORS as error:
        raise EngineError(f"A network that hears recordings failed: {error}") from error
    return outputs[:1]
