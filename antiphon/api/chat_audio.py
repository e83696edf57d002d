"""Answers in chats that are spoken while they are written, in the shape of OpenAI's chat audio.

The transcript is sent as it is written, and the audio as it is spoken, which is a little later.
"""

import base64
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from typing import Any, TypeAlias

from starlette.responses import Response

from antiphon.api.answer_voice import AnswerVoice
from antiphon.api.chat_envelope import STREAM_END, ChatEnvelope, usage_members
from antiphon.api.chat_text import error_event
from antiphon.api.encoding import FileEncoding
from antiphon.api.json_or_events import events_or_json
from antiphon.api.middleware.memory_budget import reserve
from antiphon.api.options import ignored_headers
from antiphon.api.schemas.chat import ChatAudio, ChatBody
from antiphon.api.state import ServerState
from antiphon.audio.encode import with_header
from antiphon.concurrency import merged
from antiphon.contracts.chat_types import ChatEvent, TextDelta
from antiphon.contracts.types import Ended, FinishReason, Usage
from antiphon.errors import InvalidRequestError

_TEXT, _AUDIO = 0, 1

Spoken: TypeAlias = AsyncGenerator[tuple[int, ChatEvent | bytes], None]
"""Of text and audio at once: which of the two it is, and its next item."""


async def audio_response(
    body: ChatBody, audio: ChatAudio, server: ServerState, id: str
) -> Response:
    """Answer a chat with text and audio; raises InvalidRequestError."""
    (request,) = body.to_domain(id, 1)
    headers = ignored_headers(body.ignored, server.settings.speech)
    envelope = ChatEnvelope(id, server.chats.model(body.model).name)
    voice = AnswerVoice(
        voice=audio.voice_name,
        model=audio.model,
        sample_rate_hz=audio.sample_rate_hz,
        speakable=audio.speakable,
    )
    with _named_in_audio():
        voice = await voice.checked(request.model, server)
    spoken = voice.begin(request, server)
    encoding = FileEncoding(
        audio.audio_format, spoken.sample_rate_hz, server.encoders, is_whole=not body.stream
    )
    items: Spoken = merged([spoken.text(), encoding.pieces(spoken.audio())])
    reply = _Reply(envelope, f"audio_{id.rpartition('/')[2]}")
    events = reply.chunks(items, tells_usage=body.tells_usage) if body.stream else None

    async def whole() -> list[bytes]:
        return [await reply.whole(items, encoding)]

    return events_or_json(events, whole, headers, first="first token", on_close=error_event)


@contextmanager
def _named_in_audio() -> Generator[None, None, None]:
    """Have errors name the members of ``audio``: a chat has a ``model`` of its own."""
    try:
        yield
    except InvalidRequestError as error:
        if error.param in ("voice", "model"):
            error.param = f"audio.{error.param}"
        raise


class _Reply:
    """Writes one answer.

    Attributes:
        reason: why its text ended.
    """

    def __init__(self, envelope: ChatEnvelope, audio_id: str) -> None:
        self._envelope = envelope
        self._audio_id = audio_id
        self._usages = [Usage(), Usage()]
        self.reason: FinishReason = "stop"

    async def whole(self, items: Spoken, encoding: FileEncoding) -> bytes:
        """Return the JSON of an answer; closes ``items``."""
        texts: list[str] = []
        thoughts: list[str] = []
        pieces: list[bytes] = []
        async with aclosing(items):
            async for kind, item in items:
                if isinstance(item, TextDelta):
                    texts.append(item.text)
                    thoughts += [item.reasoning] if item.reasoning else []
                elif isinstance(item, bytes):
                    reserve(3 * len(item))  # itself, in base64, and in the answer
                    pieces.append(item)
                else:
                    self._end(kind, item)
        file = b"".join(with_header(pieces, encoding.header))
        audio = {
            "id": self._audio_id,
            "data": base64.b64encode(file).decode(),
            "expires_at": self._envelope.created_s,
            "transcript": "".join(texts),
        }
        message = {"role": "assistant", "content": None, "refusal": None, "audio": audio}
        if thoughts:
            message["reasoning_content"] = "".join(thoughts)
        choice = {"index": 0, "message": message, "finish_reason": self.reason, "logprobs": None}
        members = self._envelope.whole([choice], Usage()) | {"usage": self._usage()}
        return json.dumps(members).encode()

    async def chunks(self, items: Spoken, *, tells_usage: bool) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events; closes ``items``."""
        more = {"usage": None} if tells_usage else {}
        head = {"role": "assistant", "content": None, "audio": {"id": self._audio_id}}
        is_first = True

        def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
            return self._envelope.chunk([choice], more)

        async with aclosing(items):
            async for kind, item in items:
                before = chunk(head) if is_first else b""
                is_first = False
                if isinstance(item, TextDelta) and item.reasoning:
                    before += chunk({"reasoning_content": item.reasoning})
                if isinstance(item, TextDelta):
                    if not item.text:
                        if before:
                            yield before
                        continue
                    audio = {"transcript": item.text}
                elif isinstance(item, bytes):
                    audio = {"data": base64.b64encode(item).decode()}
                else:
                    self._end(kind, item)
                    if before:
                        yield before
                    continue
                yield before + chunk({"audio": {"id": self._audio_id, **audio}})
        # Nothing is kept: the audio cannot be referred to later.
        ends = {"id": self._audio_id, "expires_at": self._envelope.created_s}
        yield chunk({"audio": ends}) + chunk({}, self.reason)
        if tells_usage:
            yield self._envelope.chunk([], {"usage": self._usage()})
        yield STREAM_END

    def _end(self, kind: int, ended: Ended) -> None:
        self._usages[kind] = ended.usage
        if kind == _TEXT:
            self.reason = ended.reason

    def _usage(self) -> dict[str, Any]:
        text, audio = self._usages
        num_tokens, num_frames = text.output_tokens, audio.output_tokens
        details = {"text_tokens": num_tokens, "audio_tokens": num_frames}
        total = Usage(text.input_tokens, num_tokens + num_frames)
        return {**usage_members(total), "completion_tokens_details": details}
