"""Audio coding for one client: one of our formats, or one of telephony's."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from antiphon.audio.companding import alaw, mulaw
from antiphon.contracts.family import SpeechCapabilities
from antiphon.formats import AudioFormat

TELEPHONE_HZ = 8000


@dataclass(frozen=True, slots=True)
class WireFormat:
    """A format and a rate.

    Attributes:
        sample_rate_hz: Sample rate; ``None``: the model's own.
        compand: makes 8-bit samples of the encoder's 16-bit ones; ``None`` leaves them.
    """

    coded_as: AudioFormat
    sample_rate_hz: int | None
    compand: Callable[[bytes], bytes] | None = None
    media_type: str = ""
    channels: int = 1

    @classmethod
    def of(cls, format: AudioFormat, sample_rate_hz: int | None) -> "WireFormat":
        """Return one of our own formats."""
        return cls(format, sample_rate_hz, None, format.media_type)

    @classmethod
    def mulaw(cls, sample_rate_hz: int = TELEPHONE_HZ) -> "WireFormat":
        """Return the telephone's format of America and Japan."""
        return cls(AudioFormat.PCM, sample_rate_hz, mulaw, "audio/basic")

    @classmethod
    def alaw(cls, sample_rate_hz: int = TELEPHONE_HZ) -> "WireFormat":
        """Return the telephone's format of everywhere else."""
        return cls(AudioFormat.PCM, sample_rate_hz, alaw, "audio/x-alaw-basic")

    def for_model(self, capabilities: SpeechCapabilities) -> "WireFormat":
        """Return the format with a model's rate, where it has none, and the model's channels.

        Bare samples are mono in the protocols of others.
        """
        return replace(
            self,
            sample_rate_hz=self.sample_rate_hz or capabilities.sample_rate_hz,
            channels=1 if self.coded_as is AudioFormat.PCM else capabilities.channels,
        )

    def finished(self, piece: bytes) -> bytes:
        """Return what the client gets of an encoded piece."""
        return piece if self.compand is None else self.compand(piece)
