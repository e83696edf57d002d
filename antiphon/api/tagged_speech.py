"""Opens a speech request whose text may have tags that change voice and rate on the way."""

from dataclasses import replace
from functools import partial

from antiphon.api.options import open_stream
from antiphon.api.schemas.kokoro import KokoroMembers, split_turns
from antiphon.api.schemas.speech import SpeechBody
from antiphon.api.state import ServerState
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.speech.dialogue import Dialogue
from antiphon.pipeline.speech.service import MAX_SPEED, MIN_SPEED
from antiphon.types import SpeechRequest, SpeechStream


def open_tagged(body: SpeechBody, request: SpeechRequest, server: ServerState) -> SpeechStream:
    """Speak a request with all that its body says, Kokoro-FastAPI's members and tags among it.

    Raises:
        InvalidRequestError: here, or before the first chunk.
    """
    turns = tagged_turns(body, request, server)
    speak = partial(open_stream, body, server=server)
    return speak(turns[0]) if len(turns) == 1 else Dialogue(server.speech, turns, speak).events()


def tagged_turns(
    body: SpeechBody, request: SpeechRequest, server: ServerState
) -> list[SpeechRequest]:
    """Return the requests that a request's tags part it into; without tags it is one.

    Raises:
        InvalidRequestError: a tag, or a member of Kokoro-FastAPI's, is wrong.
    """
    members = KokoroMembers.of(body.model_extra or {})
    languages = server.speech.model(request.model).capabilities.languages
    request = members.over(request, languages)
    if not members.allow_voice_tags or "[" not in request.input:
        return [request]
    turns = split_turns(request.input)
    if not turns[0].text.strip():
        raise InvalidRequestError("Input text cannot be empty.", param="input")
    return [
        replace(
            request,
            id=f"{request.id}/{index}" if len(turns) > 1 else request.id,
            input=turn.text,
            voice=turn.voice or request.voice,
            speed=min(MAX_SPEED, max(MIN_SPEED, request.speed * turn.rate)),
        )
        for index, turn in enumerate(turns)
    ]
