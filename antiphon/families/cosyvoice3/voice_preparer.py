"""Makes voices of recordings: the speaker, the tokens and the mel frames that prompts hold."""

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import Encode
from antiphon.contracts.types import Samples
from antiphon.errors import InvalidRequestError
from antiphon.families.cosyvoice3.bounds import FAMILY_NAME, MAX_RECORDING_S
from antiphon.families.cosyvoice3.config import MEL_FRAMES_PER_TOKEN
from antiphon.families.cosyvoice3.recording import WANTED, CosyVoice3Recording, second_of_noise
from antiphon.families.kit.recordings import KeptRecordings, known_text

_MAX_KEPT = 32  # of up to 500 kB each
_RATE_HZ = 24_000


class CosyVoice3VoicePreparer:
    """Asks the voice encoder, and keeps for a while what it made of a recording.

    A voice that is sent with every request is encoded once. Safe for threads.
    """

    def __init__(self, encode: Encode) -> None:
        """Begin with nothing kept; ``encode`` is the stage of `CosyVoice3VoiceEncoder`."""
        self._encode = encode
        self._kept: KeptRecordings[PreparedVoice] = KeptRecordings(_MAX_KEPT)

    def warm_up(self) -> None:
        """Encode some noise, which is not kept; blocks."""
        for wanted in WANTED:
            self._encode(second_of_noise(_RATE_HZ, wanted))

    def prepare(self, samples: Samples, *, name: str, ref_text: str | None) -> PreparedVoice:
        """Make a voice of a recording; computes, so it belongs in a worker thread.

        Args:
            samples: mono at the model's rate, float32 ``[num_samples]``.
            name: of the voice.
            ref_text: what is said in the recording; ``None`` or blank if that is not known.

        Raises:
            InvalidRequestError: the recording is too short or too long.
            OverloadedError: too many recordings wait to be encoded.
            EngineError: the encoder failed.
        """
        if len(samples) > MAX_RECORDING_S * _RATE_HZ:  # before it is hashed and sent
            raise InvalidRequestError(
                f"Invalid 'ref_audio': at most {MAX_RECORDING_S:g} seconds are allowed.",
                param="ref_audio",
            )
        heard = self._kept.get(samples, lambda: self._hear(samples))
        return PreparedVoice(
            name=name,
            family=FAMILY_NAME,
            ref_text=known_text(ref_text),
            speaker_embedding=heard.speaker_embedding,
            ref_codes=heard.ref_codes,
            ref_features=heard.ref_features,
        )

    def _hear(self, samples: Samples) -> PreparedVoice:
        speaker, tokens, mel = (
            self._encode(CosyVoice3Recording(samples, wanted)) for wanted in WANTED
        )
        num_tokens = min(len(tokens), len(mel) // MEL_FRAMES_PER_TOKEN)
        codes: NDArray[np.int64] = tokens[:num_tokens, None]
        return PreparedVoice(
            name="heard",
            family=FAMILY_NAME,
            speaker_embedding=speaker,
            ref_codes=codes,
            ref_features=mel[: MEL_FRAMES_PER_TOKEN * num_tokens],
        )
