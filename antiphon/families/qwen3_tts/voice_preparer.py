"""Makes voices of recordings: the speaker vector and the codes that prompts are built of."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from antiphon.concurrency import SingleFlightLRU
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import Encode
from antiphon.contracts.types import Samples
from antiphon.families.kit.recordings import known_text
from antiphon.families.qwen3_tts.options import FAMILY_NAME
from antiphon.families.qwen3_tts.recording import PARTS, Recording, noise

_MAX_KEPT = 64  # of up to 60 kB each


class VoicePreparer:
    """Asks the voice encoder, and keeps for a while what it made of a recording.

    A voice that is sent with every request is encoded once. Safe for threads.
    """

    def __init__(self, encode: Encode) -> None:
        """Begin with nothing kept; ``encode`` is the stage of `VoiceEncoder`."""
        self._encode = encode
        self._speakers: SingleFlightLRU[bytes, NDArray[np.float32]] = SingleFlightLRU(_MAX_KEPT)
        self._codes: SingleFlightLRU[bytes, NDArray[np.int64]] = SingleFlightLRU(_MAX_KEPT)

    def warm_up(self) -> None:
        """Encode some noise, which is not kept; blocks."""
        self._encode(noise(1.0))

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
            OverloadedError: too many recordings wait to be encoded.
            EngineError: the encoder failed.
        """
        key = hashlib.sha256(np.ascontiguousarray(samples).data).digest()
        codes = self._codes.get(key, lambda: self._hear(key, samples)) if with_codes else None
        speaker = self._speakers.get(
            key, lambda: self._encode(Recording(samples, ("speaker",)))["speaker"]
        )
        return PreparedVoice(
            name=name,
            family=FAMILY_NAME,
            ref_text=known_text(ref_text),
            speaker_embedding=speaker,
            ref_codes=codes,
        )

    def _hear(self, key: bytes, samples: Samples) -> NDArray[np.int64]:
        """Return the codes; the speaker vector comes with them, unless it is there or on its way.

        Recordings are large beside what is made of them: they go to the stage once.
        """
        if key in self._speakers:
            codes: NDArray[np.int64] = self._encode(Recording(samples, ("codes",)))["codes"]
            return codes
        made = self._encode(Recording(samples, PARTS))
        self._speakers.get(key, lambda: made["speaker"])
        codes = made["codes"]
        return codes
