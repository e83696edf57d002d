"""Decodes untrusted audio, each file in a process of its own without rights."""

import numpy as np

from antiphon.audio.decode import decode_audio, refusal
from antiphon.audio.wav import pcm16, wav_header
from antiphon.contracts.types import Samples
from antiphon.errors import InvalidRequestError
from antiphon.sandbox.process import Sandbox


class DecodeSandbox(Sandbox):
    """Decodes audio in children, one each; safe for several threads at once."""

    def __init__(self, *, max_memory_bytes: int = 512 * 1024 * 1024) -> None:
        """Limit what a child may allocate for one file to ``max_memory_bytes``, where we can."""
        super().__init__(__name__, refusal, max_memory_bytes=max_memory_bytes)

    def decode(
        self,
        data: bytes,
        *,
        sample_rate_hz: int,
        max_duration_s: float,
        min_duration_s: float = 0.0,
    ) -> Samples:
        """Do what `decode_audio` does; blocks, so it belongs in a worker thread.

        Raises:
            InvalidRequestError: as from `decode_audio`, or the file would take too much memory
                or time.
            EngineError: the child did not even start.
        """
        content = self.ask(
            data,
            sample_rate_hz=sample_rate_hz,
            max_duration_s=max_duration_s,
            min_duration_s=min_duration_s,
        )
        return np.frombuffer(content, np.float32).copy()


def prepare() -> None:
    """Decode a little, so that whatever is imported on first use has been, before rights go."""
    silence = np.zeros(800, np.float32)
    wav = wav_header(8_000, len(silence)) + pcm16(silence)
    decode_audio(wav, sample_rate_hz=16_000, max_duration_s=1.0)
    try:
        decode_audio(b"?", sample_rate_hz=16_000, max_duration_s=1.0)
    except InvalidRequestError:
        return


def answer(data: bytes, **limits: float) -> bytes:
    """Return the samples of a file as bytes; see `decode_audio`."""
    sample_rate_hz = int(limits.pop("sample_rate_hz"))
    return decode_audio(data, sample_rate_hz=sample_rate_hz, **limits).tobytes()
