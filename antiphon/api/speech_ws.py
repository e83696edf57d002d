"""WS /v1/audio/speech/stream: text in pieces goes in, and is spoken while it arrives.

The messages are those of vLLM-Omni. Beyond it, text is spoken before its utterance is complete,
utterances may be sent while others are played, every format streams, and ``input.clear`` stops all.
"""

import asyncio
import base64
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from fastapi import APIRouter
from starlette.websockets import WebSocket

from antiphon.api.audio_outbox import AudioOutbox, SpokenConversation
from antiphon.api.encoding import unspoken_member
from antiphon.api.errors import WireError
from antiphon.api.middleware.memory_budget import Holding
from antiphon.api.options import checked_request
from antiphon.api.schemas.kokoro import KokoroMembers
from antiphon.api.schemas.speech_ws import (
    InputText,
    NoMembers,
    SessionConfig,
    parsed,
    unknown_message,
    unknown_option,
)
from antiphon.api.sockets import Socket, converse
from antiphon.api.state import Server, ServerState, new_speech_id
from antiphon.api.voice_tags import Speaker, TagSplitter
from antiphon.api.word_timestamps import WordTimestampCollector
from antiphon.contracts.types import Ended, SpeechRequest
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.speech.segmenter import Part, pieces_of, utterance_segmenter
from antiphon.pipeline.speech.text_stream import Utterance

MAX_FRAME_BYTES = 512 * 1024
"""What is sent at once; many clients take messages of up to 1 MiB."""

router = APIRouter()
CONFIG_WITHIN_S = 10.0
_MESSAGES = ("session.config", "input.text", "input.done", "input.clear", "session.close")


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
            format: ``sample_rate``, and ``channels`` if there are several.
            place: ``utterance_index`` and ``sentence_index``.
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
            **({"word_timestamps": True} if self._config.word_timestamps else {}),
        }
        await self._socket.send(start)

    async def on_audio(self, piece: bytes) -> None:
        for start in range(0, len(piece), MAX_FRAME_BYTES):
            audio = piece[start : start + MAX_FRAME_BYTES]
            self._num_bytes += len(audio)
            if not self._config.word_timestamps:
                await self._socket.send(audio)
                continue
            chunk = {"chunk_id": self._num_chunks, "audio_b64": base64.b64encode(audio).decode()}
            self._num_chunks += 1
            timestamps = self.words.take() if self._has_words else None
            message = {"type": "audio.chunk", **self._place, **chunk, "timestamps": timestamps}
            await self._socket.send(message)

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

    async def _done(self, *, error: bool, finish_reason: str) -> None:
        result = {"total_bytes": self._num_bytes, "error": error, "finish_reason": finish_reason}
        await self._socket.send({"type": "audio.done", **self._place, **result, **self._unspoken})


def error_message(error: WireError) -> dict[str, Any]:
    """Return an error as vLLM-Omni describes it, with OpenAI's object beside it."""
    return {"type": "error", "message": error.message, **error.body()}


@router.websocket("/v1/audio/speech/stream")
async def stream_speech(websocket: WebSocket, server: Server) -> None:
    """Speak text that arrives in pieces; see docs/streaming.md for the messages."""
    socket = Socket(websocket, CONFIG_WITHIN_S)
    if len(server.speech.models) == 1:  # with several, the first message names one
        await server.speech.check_room(SpeechRequest(""))
    await socket.accept()
    await converse(socket, SpeechConversation(socket, server))


OpenFile: TypeAlias = Callable[[SpeechRequest, int, int, bool], tuple[Utterance, SpeechFileOutput]]
"""Takes the request, the utterance's index, the file's, and whether its text comes late."""


class _Text:
    """The text between two ``input.done``, and the files that it becomes."""

    def __init__(
        self, index: int, config: SessionConfig, request: SpeechRequest, open_file: OpenFile
    ) -> None:
        self.index = index
        self.num_files = 0
        self._given = self._request = request
        has_tags = KokoroMembers.of(config.model_extra or {}).allow_voice_tags
        self._tags = TagSplitter() if has_tags else None
        self._open_file = open_file
        self._file: tuple[Utterance, SpeechFileOutput] | None = None
        self._is_cut = config.split_granularity != "none"
        self._segmenter = utterance_segmenter(config.split_granularity)

    async def push(self, text: str) -> None:
        """Speak more text; a long one is cut in pieces, between which others have a turn."""
        for piece in pieces_of(text) if self._is_cut else [text]:
            for item in self._tags.push(piece) if self._tags else [piece]:
                for part in self._taken(item):
                    self._speak(part)
                    await asyncio.sleep(0)
            await asyncio.sleep(0)

    def complete(self) -> None:
        """Speak what is left."""
        for item in self._tags.push("", is_last=True) if self._tags else []:
            for part in self._taken(item):
                self._speak(part)
        self._end_turn()

    def _taken(self, item: str | Speaker) -> list[Part]:
        """Take in text, or who speaks from here on; return what is to be spoken now."""
        if isinstance(item, str):
            return self._segmenter.push(item)
        self._end_turn()
        self._request = item.over(self._given)
        return []

    def _end_turn(self) -> None:
        """Speak the rest of the text of the voice until now."""
        for part in self._segmenter.flush():
            self._speak(part)

    def _speak(self, part: Part) -> None:
        if self._file is None:
            if not part.text.strip():
                return
            reads_late = not self._is_cut
            self._file = self._open_file(self._request, self.index, self.num_files, reads_late)
            self.num_files += 1
        utterance, file = self._file
        text = part.text.strip() if self._is_cut else part.text
        try:
            utterance.push(text)
            file.text += text
        finally:
            if part.ends_segment:
                self._file = None
                utterance.complete()


class SpeechConversation(SpokenConversation):
    """Follows the messages of one connection."""

    def __init__(self, socket: Socket, server: ServerState) -> None:
        super().__init__(socket, AudioOutbox(server))
        self._server = server
        self._config: SessionConfig | None = None
        self._request = SpeechRequest("")
        self._text: _Text | None = None
        self._num_texts = 0
        self._held = Holding()

    async def receive(self, message: Mapping[str, Any]) -> bool:
        type = message.get("type")
        if type in _MESSAGES[2:]:
            parsed(message, NoMembers)
        if type == "session.close":
            self._complete()
            return True
        if type == "session.config":
            await self._configure(message)
        elif self._config is None:
            raise InvalidRequestError("Expected session.config as the first message.", param="type")
        elif type == "input.text":
            text = parsed(message, InputText).text
            self._outbox.check_room(len(text))
            await self._current(self._config).push(text)
        elif type == "input.done":
            if self._text is None:
                self._outbox.check_room()
            self._current(self._config)
            self._complete()
        elif type == "input.clear":
            await self._clear()
        else:
            raise unknown_message(type, *_MESSAGES)
        return False

    async def refuse(self, error: WireError) -> None:
        await self._socket.send(error_message(error))

    async def close(self) -> None:
        self._text = None  # it refers to this object
        await super().close()

    async def _configure(self, message: Mapping[str, Any]) -> None:
        if self._text is not None:
            reason = "session.config must come before an utterance or after its input.done."
            raise InvalidRequestError(reason, param="type")
        config = parsed(message, SessionConfig)
        request = replace(config.to_domain(new_speech_id()), input="")
        request = await self._server.speech.routed(request)
        model = self._server.speech.model(request.model)
        languages = model.capabilities.languages
        request = KokoroMembers.of(config.model_extra or {}).over(request, languages)
        has_words = request.word_timestamps and model.capabilities.word_times
        request = replace(request, word_timestamps=has_words)
        request, _, options = checked_request(config, request, self._server)
        for name in options.ignored:
            raise unknown_option(name, model.task)
        rate_hz = model.capabilities.sample_rate_hz
        values = await options.decoded(self._server.recordings, rate_hz)
        request = replace(request, options=values)
        await self._server.speech.check_voice(request)
        samples = (each for each in values.values() if isinstance(each, np.ndarray))
        self._held.set(self._socket.in_hand.num_bytes + sum(each.nbytes for each in samples))
        self._config, self._request = config, request
        self._socket.max_idle_s = self._server.settings.server.max_idle_s

    def _current(self, config: SessionConfig) -> _Text:
        """Return the text that is being given, or begin one."""
        if self._text is None:
            self._text = _Text(self._num_texts, config, self._request, self._open_file)
            self._num_texts += 1
        return self._text

    def _complete(self) -> None:
        """End the current text, if there is one, and announce when it has been played."""
        if self._text is None:
            return
        text, self._text = self._text, None
        text.complete()
        done = {"utterance_index": text.index, "total_sentences": text.num_files}
        self._outbox.then(lambda: self._socket.send({"type": "session.done", **done}))

    async def _clear(self) -> None:
        self._text = None
        await self._outbox.clear()
        await self._socket.send({"type": "input.cleared"})

    def _open_file(
        self, request: SpeechRequest, index: int, file_index: int, reads_late: bool
    ) -> tuple[Utterance, SpeechFileOutput]:
        assert self._config is not None
        self._outbox.check_room()  # one message may hold many sentences
        capabilities = self._server.speech.model(request.model).capabilities
        channels = capabilities.channels
        place = {"utterance_index": index, "sentence_index": file_index}
        format = {"sample_rate": request.sample_rate_hz or capabilities.sample_rate_hz}
        if channels > 1:
            format["channels"] = channels
        has_words = request.word_timestamps
        file = SpeechFileOutput(self._socket, self._config, format, place, has_words=has_words)
        request = replace(request, id=new_speech_id())
        opened = self._outbox.open(
            request,
            file,
            self._config.response_format,
            channels,
            is_whole=not self._config.stream_audio,
            reads_late=reads_late,
            observers=(file.words.add,),
        )
        return opened, file
