"""Makes voices of recordings: patches of latents, padded behind, and padded before."""

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import Encode
from antiphon.contracts.types import Samples
from antiphon.families.kit.recordings import KeptRecordings, known_text
from antiphon.families.voxcpm2.latents import Patches
from antiphon.families.voxcpm2.options import FAMILY_NAME
from antiphon.families.voxcpm2.recording import RecordedVoice, noise

_MAX_KEPT = 64  # of up to 400 kB each


class PatchPreparer:
    """Asks the voice encoder, and keeps for a while what it made of a recording.

    A voice that is sent with every request is encoded once. Safe for threads.
    """

    def __init__(self, encode: Encode, rate_hz: int) -> None:
        """Begin with nothing kept; ``encode`` is the stage of `VAEVoiceEncoder`."""
        self._encode = encode
        self._rate_hz = rate_hz
        self._kept: KeptRecordings[NDArray[np.float32]] = KeptRecordings(_MAX_KEPT)

    def warm_up(self) -> None:
        """Encode some noise, which is not kept; blocks."""
        self._encode(noise(1.0, self._rate_hz))

    def patches(self, samples: Samples, *, is_continued: bool, param: str = "ref_audio") -> Patches:
        """Return the patches of a recording; computes, so it belongs in a worker thread.

        Args:
            samples: mono at the rate of what is spoken.
            is_continued: whether speech goes on where it ends.
            param: of the request, that brought it.

        Raises:
            InvalidRequestError: the recording will not do.
            OverloadedError: too many recordings wait to be encoded.
            EngineError: the encoder failed.
        """
        recording = RecordedVoice(samples, is_continued, param)
        return self._kept.get(samples, lambda: self._encode(recording), is_continued)

    def prepare(self, samples: Samples, *, name: str, ref_text: str | None) -> PreparedVoice:
        """Make a voice of a recording, with the patches of both ways of using it, end to end.

        Raises:
            InvalidRequestError: the recording will not do.
        """
        patches = [self.patches(samples, is_continued=each) for each in (False, True)]
        return PreparedVoice(
            name=name,
            family=FAMILY_NAME,
            ref_text=known_text(ref_text),
            ref_features=np.concatenate(patches),
        )
