"""ElevenLabs' text-to-dialogue: texts of several speakers, spoken one after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from antiphon.api.adapters.elevenlabs import JSON, JSON_LINES, speech_request
from antiphon.api.adapters.files import file_pieces
from antiphon.api.adapters.timed_audio import timed_lines, timed_whole
from antiphon.api.deps import Server, SpeechId
from antiphon.api.schemas.elevenlabs import DialogueBody, DialogueInput, SpeechQuery
from antiphon.api.state import ServerState
from antiphon.api.streaming import StreamedResponse, WholeResponse
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.speech.dialogue import Dialogue, TurnTime

router = APIRouter(tags=["elevenlabs"])

PAUSE_S = 0.25
"""Between two speakers."""


@router.post("/v1/text-to-dialogue", response_class=Response)
@router.post("/v1/text-to-dialogue/stream", response_class=Response)
async def convert(
    query: Annotated[SpeechQuery, Query()], body: DialogueBody, server: Server, speech_id: SpeechId
) -> Response:
    """Speak a dialogue; either way the file is streamed."""
    format = body.over(query).format()
    dialogue = await _dialogue(body.over(query), body, server, speech_id)
    pieces = file_pieces(dialogue.events(), format, server)
    return StreamedResponse(pieces, {"request-id": speech_id}, format.media_type)


@router.post("/v1/text-to-dialogue/with-timestamps", response_class=Response)
async def convert_with_timestamps(
    query: Annotated[SpeechQuery, Query()], body: DialogueBody, server: Server, speech_id: SpeechId
) -> Response:
    """Speak a dialogue, and tell when each speaker and each character is heard."""
    format = body.over(query).format()
    dialogue = await _dialogue(body.over(query), body, server, speech_id)
    segments = _Segments(body.inputs, dialogue.heard)

    async def collect() -> tuple[list[bytes], dict[str, str]]:
        events = dialogue.events()
        return [await timed_whole(events, body.text, format, server, segments.told)], {}

    return WholeResponse(collect, {"request-id": speech_id}, JSON)


@router.post("/v1/text-to-dialogue/stream/with-timestamps", response_class=Response)
async def stream_with_timestamps(
    query: Annotated[SpeechQuery, Query()], body: DialogueBody, server: Server, speech_id: SpeechId
) -> Response:
    """Speak a dialogue as JSON objects, one a line; a speaker's times come when they are known."""
    format = body.over(query).format()
    dialogue = await _dialogue(body.over(query), body, server, speech_id)
    segments = _Segments(body.inputs, dialogue.heard)
    lines = timed_lines(dialogue.events(), body.text, format, server, segments.told)
    return StreamedResponse(lines, {"request-id": speech_id}, JSON_LINES)


async def _dialogue(
    query: SpeechQuery, body: DialogueBody, server: ServerState, id: str
) -> Dialogue:
    turns = []
    for index, said in enumerate(body.inputs):
        if not said.text.strip():
            raise InvalidRequestError(
                f"Invalid 'inputs.{index}.text': it is empty.", param=f"inputs.{index}.text"
            )
        request = await speech_request(
            said.voice_id, query, query.format(), server, f"{id}/{index}"
        )
        turns.append(replace(request, input=said.text, normalize=body.normalize))
    return Dialogue(server.speech, turns, server.speech.stream, PAUSE_S)


class _Segments:
    """Tells each speaker's part once, as soon as it has been heard."""

    def __init__(self, inputs: Sequence[DialogueInput], heard: Sequence[TurnTime]) -> None:
        self._inputs = inputs
        self._heard = heard
        self._num_told = 0
        self._places = [0, *accumulate(len(each.text) + 1 for each in inputs)]

    def told(self) -> Mapping[str, Any]:
        """Return what has been heard since the last call."""
        fresh = range(self._num_told, len(self._heard))
        self._num_told = len(self._heard)
        return {"voice_segments": [self._segment(index) for index in fresh]}

    def _segment(self, index: int) -> Mapping[str, Any]:
        said, time, place = self._inputs[index], self._heard[index], self._places[index]
        return {
            "voice_id": said.voice_id,
            "start_time_seconds": round(time.start_s, 3),
            "end_time_seconds": round(time.end_s, 3),
            "character_start_index": place,
            "character_end_index": place + len(said.text),
            "dialogue_input_index": index,
        }
