"""Speech to be judged that a server answers with, in the pieces in which it came."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.types import LoadProgress
from antiphon.errors import SettingsError
from antiphon_bench.bodies import BYTES_PER_SAMPLE, BodyError, PcmBody
from antiphon_bench.connection import SpeechClient, record_of, request_bytes
from antiphon_bench.exchange import Exchange
from antiphon_bench.load import Target
from antiphon_bench.quality.recording import SpeechRecording
from antiphon_bench.serve import target_of

_TIMEOUT_S = 3600.0


def spoken_by(
    url: str,
    texts: Mapping[str, str],
    *,
    fields: Mapping[str, Any],
    language: str = "en",
    api_key: str | None = None,
    progress: LoadProgress = lambda *_: None,
) -> list[SpeechRecording]:
    """Request speech for each text from a server and return it in the pieces in which it came.

    Args:
        fields: further members of each request.
        progress: callback with the current step, the number of finished texts, and their total.

    Raises:
        SettingsError: the server cannot be reached, refuses, or answers with something else than
            whole bare samples. No key is in its message.
    """
    if fields.get("response_format", "pcm") != "pcm":
        raise SettingsError("Bare samples are judged: response_format cannot be chosen.")
    fields = {"response_format": "pcm", **fields}
    target = target_of(url, api_key=api_key, fields=fields, timeout_s=_TIMEOUT_S)
    return asyncio.run(_spoken(target, texts, language, progress))


class _Pieces(Exchange):
    """Bare samples under way, which are kept as they come."""

    def __init__(self) -> None:
        super().__init__("pcm")
        self.pieces: list[bytes] = []

    def take(self, data: bytes, now_s: float) -> None:
        super().take(data, now_s)
        self.pieces.append(data)

    def _open(self) -> None:
        super()._open()
        if not isinstance(self.body, PcmBody):
            raise BodyError("Events came in the place of bare samples")


async def _spoken(
    target: Target, texts: Mapping[str, str], language: str, progress: LoadProgress
) -> list[SpeechRecording]:
    found: list[SpeechRecording] = []
    client = SpeechClient(target)
    try:
        for number, (name, text) in enumerate(texts.items(), 1):
            exchange = _Pieces()
            body = {**target.fields, "input": text}
            await client.carry(request_bytes(target, body), exchange)
            record = record_of(number, text, (0.0, 0.0), exchange, target)
            if record.outcome != "ok":
                status = f"HTTP {record.status}: " if record.status not in (0, 200) else ""
                raise SettingsError(f"{name}: {status}{record.message}")
            assert isinstance(exchange.body, PcmBody)
            pieces = tuple(_samples(exchange.pieces, exchange.body.channels))
            found.append(SpeechRecording(name, pieces, exchange.rate_hz, text, language))
            progress("texts", number, len(texts))
    finally:
        client.close()
    return found


def _samples(pieces: Sequence[bytes], channels: int) -> list[NDArray[np.float64]]:
    """Return pieces as mono samples in [-1, 1]; what is cut within one goes to the next piece."""
    found, odd, size = [], b"", BYTES_PER_SAMPLE * channels
    for piece in pieces:
        data = odd + piece
        whole = len(data) // size * size
        odd = data[whole:]
        if whole:
            moments = np.frombuffer(data[:whole], "<i2").reshape(-1, channels)
            found.append(moments.mean(axis=1) / 32768)
    return found
