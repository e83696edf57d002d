"""Opens a speech request whose text may have tags that change voice and rate on the way."""

from dataclasses import replace
from functools import partial

from antiphon.api.options import open_stream
from antiphon.api.schemas.kokoro import KokoroMembers, split_turns
from antiphon.api.schemas.speech import SpeechBody
from antiphon.api.state import ServerState
from antiphon.pipeline.speech.dialogue import Dialogue
from antiphon.pipeline.speech.service import MAX_SPEED, MIN_SPEED
from antiphon.types import SpeechRequest, SpeechStream


def open_tagged(body: SpeechBody, request: SpeechRequest, server: ServerState) -> SpeechStream:
    """Speak a request with all that its body says, Kokoro-FastAPI's members and tags among it.

    Raises:
        InvalidRequestError: here, or before the first chunk.
    """
    members = KokoroMembers.of(body.model_extra or {})
    languages = server.speech.model(request.model).capabilities.languages
    request = members.over(request, languages)
    speak = partial(open_stream, body, server=server)
    if not members.allow_voice_tags or "[" not in request.input:
        return speak(request)
    turns = split_turns(request.input)
    requests = [
        replace(
            request,
            id=f"{request.id}/{index}" if len(turns) > 1 else request.id,
            input=turn.text,
            voice=turn.voice or request.voice,
            speed=min(MAX_SPEED, max(MIN_SPEED, request.speed * turn.rate)),
        )
        for index, turn in enumerate(turns)
    ]
    if len(requests) == 1:
        return speak(requests[0])
    return Dialogue(server.speech, requests, speak).events()
