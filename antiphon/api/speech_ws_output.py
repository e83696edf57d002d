"""The messages of ``/v1/audio/speech/stream`` about one file: an utterance, or a sentence."""

import base64
from collections.abc import Mapping
from typing import Any

from antiphon.api.errors import WireError
from antiphon.api.schemas.speech_ws import SessionConfig
from antiphon.api.sockets import Socket
from antiphon.api.unspoken import unspoken_member
from antiphon.api.word_timestamps import WordTimestampCollector
from antiphon.contracts.types import Ended

MAX_FRAME_BYTES = 512 * 1024
"""What is sent at once; many clients take messages of up to 1 MiB."""


class SpeechFileOutput:
    """Sends one file; a `Listener`.

    Attributes:
        text: Text, as far as it is known.
        words: those whose audio is made.
    """

    def __init__(
        self,
        socket: Socket,
        config: SessionConfig,
        format: Mapping[str, int],
        place: Mapping[str, int],
        *,
        has_words: bool,
    ) -> None:
        """Send a file's events.

        Args:
            socket: WebSocket of the client.
            config: Options of the session.
            format: ``sample_rate``, and ``channels`` if there are several.
            place: ``utterance_index`` and ``sentence_index``.
            has_words: whether the model gives the times of words.
        """
        self._socket = socket
        self._config = config
        self._format = format
        self._place = place
        self.text = ""
        self._num_chunks = 0
        self._num_bytes = 0
        self._has_begun = False
        self._unspoken: Mapping[str, Any] = {}
        self.words = WordTimestampCollector()
        self._has_words = has_words

    async def begin(self) -> None:
        self._has_begun = True
        start = {
            "type": "audio.start",
            **self._place,
            "sentence_text": self.text,
            "format": self._config.response_format,
            **self._format,
        }
        if self._config.word_timestamps:
            start["word_timestamps"] = True
        await self._socket.send(start)

    async def on_audio(self, piece: bytes) -> None:
        for start in range(0, len(piece), MAX_FRAME_BYTES):
            await self._deliver(piece[start : start + MAX_FRAME_BYTES])

    async def end(self, ended: Ended) -> None:
        self._unspoken = unspoken_member(ended.unspoken)
        await self._done(error=False, finish_reason=ended.reason)

    async def fail(self, error: WireError) -> None:
        message = {**error_message(error), **self._place}
        if self._num_bytes:
            message |= {"partial_audio": True, "action": "discard"}
        await self._socket.send(message)
        if self._has_begun:
            await self._done(error=True, finish_reason="error")

    async def _deliver(self, audio: bytes) -> None:
        self._num_bytes += len(audio)
        if not self._config.word_timestamps:
            await self._socket.send(audio)
            return
        chunk = {"chunk_id": self._num_chunks, "audio_b64": base64.b64encode(audio).decode()}
        self._num_chunks += 1
        timestamps = self.words.take() if self._has_words else None
        message = {"type": "audio.chunk", **self._place, **chunk, "timestamps": timestamps}
        await self._socket.send(message)

    async def _done(self, *, error: bool, finish_reason: str) -> None:
        result = {"total_bytes": self._num_bytes, "error": error, "finish_reason": finish_reason}
        await self._socket.send({"type": "audio.done", **self._place, **result, **self._unspoken})


def error_message(error: WireError) -> dict[str, Any]:
    """Return an error as vLLM-Omni describes it, with OpenAI's object beside it."""
    return {"type": "error", "message": error.message, **error.body()}
