"""Opens a speech request whose text may have tags that change voice and rate on the way."""

from dataclasses import replace
from functools import partial

from antiphon.api.options import open_stream
from antiphon.api.schemas.kokoro import KokoroMembers
from antiphon.api.schemas.speech import SpeechBody
from antiphon.api.state import ServerState
from antiphon.api.voice_tags import split_turns
from antiphon.contracts.types import SpeechRequest, SpeechStream
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.speech.dialogue import Dialogue
from antiphon.text.offset_map import OffsetMap


def open_tagged(body: SpeechBody, request: SpeechRequest, server: ServerState) -> SpeechStream:
    """Speak a request with all members of its body, Kokoro-FastAPI's members and tags included.

    Raises:
        InvalidRequestError: here, or before the first chunk.
    """
    server.speech.check_length(request)
    turns, offsets = tagged_turns(body, request, server)
    speak = partial(open_stream, body, server=server)
    if turns[0].input == request.input:
        return speak(turns[0])
    return Dialogue(server.speech, turns, speak, sent=request.input, offsets=offsets).events()


def tagged_turns(
    body: SpeechBody, request: SpeechRequest, server: ServerState
) -> tuple[list[SpeechRequest], OffsetMap]:
    """Return the requests that a request's tags separate it into, and the origins of their texts.

    Raises:
        InvalidRequestError: a tag, or a member of Kokoro-FastAPI's, is wrong.
    """
    members = KokoroMembers.of(body.model_extra or {})
    languages = server.speech.model(request.model).capabilities.languages
    request = members.over(request, languages)
    if not members.allow_voice_tags or "[" not in request.input:
        return [request], OffsetMap()
    turns, offsets = split_turns(request.input)
    if not turns:
        raise InvalidRequestError("Input text cannot be empty.", param="input")
    ids = [request.id] if len(turns) == 1 else [f"{request.id}/{i}" for i in range(len(turns))]
    return [
        replace(speaker.over(request), id=id, input=text)
        for id, (speaker, text) in zip(ids, turns, strict=True)
    ], offsets
