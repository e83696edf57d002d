"""Hears recordings of voices: makes the speaker vector and the codes that prompts are built of."""

import hashlib
from dataclasses import dataclass
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray

from antiphon.models.prepared import PreparedVoice
from antiphon.models.qwen3_tts.config_reader import load_config
from antiphon.models.qwen3_tts.encoder import CodecEncoder
from antiphon.models.qwen3_tts.options import FAMILY_NAME
from antiphon.models.qwen3_tts.weights import codec_encoder_weights, speaker_encoder_weights
from antiphon.models.spec import LoadContext
from antiphon.nn.device import resolve_device
from antiphon.nn.ecapa import EcapaEncoder
from antiphon.nn.precision import exact_float32
from antiphon.storage.single_flight_lru import SingleFlightLRU
from antiphon.types import Samples

_MAX_KEPT = 64  # of up to 60 kB each


@dataclass(frozen=True, slots=True)
class _Encoders:
    """Both in float32, whatever the talker is computed in: roundings would change codes.

    On a GPU too, where they are called within `exact_float32`: a voice's codes are the same there.
    """

    speaker: EcapaEncoder
    codec: CodecEncoder
    device: torch.device

    @classmethod
    def load(cls, context: LoadContext) -> "_Encoders":
        assert context.path is not None, "the family needs a checkpoint"
        config = load_config(context.path)
        assert config.speaker_encoder is not None, "only base checkpoints hear voices"
        device = resolve_device(context.device)
        like = torch.empty(0, dtype=torch.float32, device=device)
        with speaker_encoder_weights(context.path, config, like=like) as weights:
            speaker = EcapaEncoder.of(weights, "speaker_encoder", config.speaker_encoder)
        with codec_encoder_weights(context.path, config, like=like) as weights:
            codec = CodecEncoder.of(weights, config.codec.encoder, config.codec.num_quantizers)
        return cls(speaker, codec, device)


class VoicePreparer:
    """The encoders of a base checkpoint; safe for threads, which take turns.

    They are loaded when the first recording comes. What was heard of a recording is kept for a
    while, so that a voice that is sent with every request is heard once.
    """

    def __init__(self, context: LoadContext) -> None:
        """Note where the checkpoint is."""
        self._context = context
        self._lock = Lock()
        self._loaded: _Encoders | None = None
        self._speakers: SingleFlightLRU[bytes, NDArray[np.float32]] = SingleFlightLRU(_MAX_KEPT)
        self._codes: SingleFlightLRU[bytes, NDArray[np.int64]] = SingleFlightLRU(_MAX_KEPT)

    def prepare(
        self, samples: Samples, *, name: str, ref_text: str | None, with_codes: bool = True
    ) -> PreparedVoice:
        """Make a voice of a recording; computes, so it belongs in a worker thread.

        Args:
            samples: mono at the codec's rate, float32 ``[num_samples]``.
            name: of the voice.
            ref_text: what is said in the recording; ``None`` or blank if that is not known.
            with_codes: whether the recording itself is wanted, beside how the speaker sounds.

        Raises:
            InvalidRequestError: the recording is too short.
            ModelLoadError: the encoders cannot be loaded.
        """
        key = hashlib.sha256(samples.tobytes()).digest()
        speaker = self._speakers.get(key, lambda: self._embed(samples))
        codes = self._codes.get(key, lambda: self._encode(samples)) if with_codes else None
        return PreparedVoice(
            name=name,
            family=FAMILY_NAME,
            ref_text=ref_text if ref_text and ref_text.strip() else None,
            speaker_embedding=speaker,
            ref_codes=codes,
        )

    @torch.inference_mode()
    def _embed(self, samples: Samples) -> NDArray[np.float32]:
        with self._lock, exact_float32():
            encoders = self._encoders()
            vector = encoders.speaker.embed(torch.tensor(samples, device=encoders.device))
            speaker: NDArray[np.float32] = vector.cpu().numpy()
        return speaker

    @torch.inference_mode()
    def _encode(self, samples: Samples) -> NDArray[np.int64]:
        with self._lock, exact_float32():
            encoders = self._encoders()
            frames = encoders.codec.encode(torch.tensor(samples, device=encoders.device))
            codes: NDArray[np.int64] = frames.cpu().numpy()
        return codes

    def _encoders(self) -> _Encoders:
        """Return the encoders; called with the lock held."""
        if self._loaded is None:
            self._loaded = _Encoders.load(self._context)
        return self._loaded
