"""ElevenLabs' text-to-dialogue: texts of several speakers, spoken one after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from antiphon.api.adapters.elevenlabs import Call, ElevenLabsCall
from antiphon.api.bodies import JsonRoute
from antiphon.api.schemas.elevenlabs import DialogueBody, DialogueInput
from antiphon.errors import invalid
from antiphon.pipeline.speech.dialogue import Dialogue, TurnTime
from antiphon.text.offset_map import OffsetMap

router = APIRouter(tags=["elevenlabs"], route_class=JsonRoute)

PAUSE_S = 0.25
"""Between two speakers."""


@router.post("/v1/text-to-dialogue", response_class=Response)
@router.post("/v1/text-to-dialogue/stream", response_class=Response)
async def convert(call: ElevenLabsCall, body: DialogueBody) -> Response:
    """Speak a dialogue; either way the file is streamed."""
    call = await _routed(call, body)
    return call.file((await _dialogue(call, body)).events())


@router.post("/v1/text-to-dialogue/with-timestamps", response_class=Response)
async def convert_with_timestamps(call: ElevenLabsCall, body: DialogueBody) -> Response:
    """Speak a dialogue, with the times of each speaker and each character."""
    call = await _routed(call, body)
    dialogue = await _dialogue(call, body)
    return call.json(
        dialogue.events(), body.text, _Segments(body.inputs, dialogue.turn_times).members
    )


@router.post("/v1/text-to-dialogue/stream/with-timestamps", response_class=Response)
async def stream_with_timestamps(call: ElevenLabsCall, body: DialogueBody) -> Response:
    """Speak a dialogue as JSON objects, one a line; a speaker's times come when they are known."""
    call = await _routed(call, body)
    dialogue = await _dialogue(call, body)
    segments = _Segments(body.inputs, dialogue.turn_times)
    return call.json_lines(dialogue.events(), body.text, segments.members)


async def _routed(call: Call, body: DialogueBody) -> Call:
    return await call.over(body).routed(*(each.voice_id for each in body.inputs))


async def _dialogue(call: Call, body: DialogueBody) -> Dialogue:
    turns, offsets = [], OffsetMap()
    for index, spoken in enumerate(body.inputs):
        if not spoken.text.strip():
            raise invalid(f"inputs.{index}.text", "it is empty")
        request = await replace(call, id=f"{call.id}/{index}").request(spoken.voice_id)
        turns.append(replace(request, input=spoken.text, normalize=body.normalize))
        offsets.copy(len(spoken.text))
        offsets.skip(1)  # the space between two turns in the whole text
    speech = call.server.speech
    return Dialogue(speech, turns, speech.stream, PAUSE_S, sent=body.text, offsets=offsets)


class _Segments:
    """Describes each speaker's part once, as soon as it has been spoken."""

    def __init__(self, inputs: Sequence[DialogueInput], turn_times: Sequence[TurnTime]) -> None:
        self._inputs = inputs
        self._turn_times = turn_times
        self._num_sent = 0
        self._places = [0, *accumulate(len(each.text) + 1 for each in inputs)]

    def members(self) -> Mapping[str, Any]:
        """Return the parts that have ended since the last call."""
        fresh = range(self._num_sent, len(self._turn_times))
        self._num_sent = len(self._turn_times)
        return {"voice_segments": [self._segment(index) for index in fresh]}

    def _segment(self, index: int) -> Mapping[str, Any]:
        spoken, time, place = self._inputs[index], self._turn_times[index], self._places[index]
        return {
            "voice_id": spoken.voice_id,
            "start_time_seconds": round(time.start_s, 3),
            "end_time_seconds": round(time.end_s, 3),
            "character_start_index": place,
            "character_end_index": place + len(spoken.text),
            "dialogue_input_index": index,
        }
