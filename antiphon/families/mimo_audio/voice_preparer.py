"""Makes voices of recordings: the codes that stand in front of prompts."""

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import Encode
from antiphon.contracts.types import Samples
from antiphon.errors import InvalidRequestError
from antiphon.families.kit.recordings import KeptRecordings, warm_up_samples
from antiphon.families.mimo_audio.config import MiMoAudioConfig
from antiphon.families.mimo_audio.options import FAMILY_NAME

_MAX_KEPT = 64  # of up to 48 kB each


class CodePreparer:
    """Asks the voice encoder, and keeps for a while what it made of a recording.

    A voice that is sent with every request is encoded once. Safe for threads.
    """

    def __init__(self, encode: Encode, rate_hz: int) -> None:
        """Begin with nothing kept; ``encode`` is the stage of `CodeVoiceEncoder`."""
        self._encode = encode
        self._rate_hz = rate_hz
        self._kept: KeptRecordings[NDArray[np.int64]] = KeptRecordings(_MAX_KEPT)

    def warm_up(self) -> None:
        """Encode some noise, which is not kept; blocks."""
        self._encode(warm_up_samples(self._rate_hz))

    def codes(
        self, given: NDArray[np.float32] | PreparedVoice, config: MiMoAudioConfig
    ) -> NDArray[np.int64]:
        """Return the codes of a voice, ``[num_frames, num_channels]``.

        Raises:
            InvalidRequestError: the recording will not do, or the voice is another family's.
            OverloadedError: too many recordings wait to be encoded.
            EngineError: the encoder failed.
        """
        if not isinstance(given, PreparedVoice):
            return self._kept.get(given, lambda: self._encode(given))
        codes = given.ref_codes
        if given.family != FAMILY_NAME or codes is None:
            raise InvalidRequestError(
                f"Invalid 'ref_audio': the voice '{given.name}' was prepared for"
                f" '{given.family}'; this model needs one for '{FAMILY_NAME}'.",
                param="ref_audio",
            )
        if codes.shape[1] != config.num_channels or (codes >= config.empty_codes).any():
            raise InvalidRequestError(
                f"Invalid 'ref_audio': the voice '{given.name}' is not of a checkpoint like this.",
                param="ref_audio",
            )
        return codes

    def prepare(self, samples: Samples, *, name: str, config: MiMoAudioConfig) -> PreparedVoice:
        """Make a voice of a recording; what it says is not needed.

        Raises:
            InvalidRequestError: the recording will not do.
        """
        codes = self.codes(samples, config)
        return PreparedVoice(name=name, family=FAMILY_NAME, ref_codes=codes)
