"""POST /v1/audio/speech/batch: many texts at once, each with an answer of its own."""

import asyncio
import base64
import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from antiphon.api.bodies import JsonRoute
from antiphon.api.encoding import FileEncoding
from antiphon.api.errors import on_failure, record_failure, wire_error
from antiphon.api.middleware import memory_budget
from antiphon.api.options import checked_request, ignored_headers, unknown_names
from antiphon.api.schemas.error import ErrorBody
from antiphon.api.schemas.speech import SpeechBody
from antiphon.api.schemas.speech_batch import (
    SpeechBatchAnswer,
    SpeechBatchBody,
    SpeechBatchResult,
    SpeechBatchUsage,
)
from antiphon.api.state import Server, ServerState, SpeechId
from antiphon.api.streaming import WholeResponse
from antiphon.api.voice_tags import open_tagged
from antiphon.api.word_timestamps import WordTimestampCollector
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.speech.model import SpeechModel

router = APIRouter(tags=["speech"], route_class=JsonRoute)

_NO_RESULTS, _RESULTS = b'"results":[]', b'"results":['


@router.post(
    "/v1/audio/speech/batch",
    response_model=SpeechBatchAnswer,
    responses={400: {"model": ErrorBody}, 404: {"model": ErrorBody}, 413: {"model": ErrorBody}},
)
async def create_speech_batch(
    body: SpeechBatchBody, server: Server, speech_id: SpeechId
) -> Response:
    """Speak all texts, together, at offline priority.

    What is wrong beside the items is an error of the request. An item that fails has an error in
    its result; the answer is 200 all the same. When the client leaves, all items stop.
    """
    limit = server.settings.speech.max_batch_items
    if len(body.items) > limit:
        raise InvalidRequestError(
            f"Batch contains {len(body.items)} items, exceeding the maximum of {limit}.",
            param="items",
        )
    own = unknown_names((name for item in body.items for name in item), server)
    ignored = (*await _check_shared(body, server), *own)
    collect = partial(_answered, body, server, speech_id)
    headers = ignored_headers(ignored, server.settings.speech)
    return WholeResponse(collect, {"Cache-Control": "no-cache", **headers}, "application/json")


async def _check_shared(body: SpeechBatchBody, server: ServerState) -> tuple[str, ...]:
    """Refuse what would be wrong with every item; return the shared fields that are unknown.

    Raises:
        InvalidRequestError: names the field and what is allowed.
    """
    shared = body.shared
    if shared.model is None and any("model" in item for item in body.items):
        return ()  # what a model knows and can do is asked for each item
    request = await server.speech.routed(shared.to_domain("shared"))
    request, model, options = checked_request(shared, request, server)
    if not any(_says_who(item, model) for item in body.items):
        await server.speech.resolve_voice(replace(request, options=options.named), model)
    return options.ignored


def _says_who(item: Mapping[str, Any], model: SpeechModel) -> bool:
    """Whether an item has its own voice, or its own model."""
    fields = ("model", "voice", "speaker", "references", *model.capabilities.voice_fields)
    return any(item.get(name) is not None for name in fields)


async def _answered(
    body: SpeechBatchBody, server: ServerState, speech_id: str
) -> tuple[list[bytes], dict[str, str]]:
    """Return the answer in pieces, one an item: it may be large, and is in memory only once.

    Raises:
        RequestTooLargeError: the batch needs more memory than one request may hold.
        MemoryShareError: the caller's requests hold too much.
        MemoryFullError: all requests together do.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_result(body, index, server, f"{speech_id}-{index}"))
                for index in range(len(body.items))
            ]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    results = [task.result() for task in tasks]
    num_succeeded = sum(has_succeeded for has_succeeded, _ in results)
    answer = SpeechBatchAnswer(
        id=f"speech-batch-{secrets.token_hex(12)}",
        results=[],
        total=len(results),
        succeeded=num_succeeded,
        failed=len(results) - num_succeeded,
    )
    before, after = answer.model_dump_json().encode().split(_NO_RESULTS)
    pieces = [piece for _, result in results for piece in (b",", result)]
    return [before, _RESULTS, *pieces[1:], b"]", after], {}


async def _result(
    body: SpeechBatchBody, index: int, server: ServerState, id: str
) -> tuple[bool, bytes]:
    """Speak an item; return whether that went well, and its JSON.

    Whatever goes wrong is its own affair, but for the memory that all share.
    """
    result: SpeechBatchResult | None = None

    async def report(error: Exception) -> bool:
        nonlocal result
        if isinstance(error, memory_budget.REFUSALS):
            return False
        record_failure(error, server.guards.metrics, has_started=False)
        described = wire_error(error)
        result = SpeechBatchResult(
            index=index,
            status="error",
            error=described.message,
            error_details=ErrorBody.model_validate(described.body()),
        )
        return True

    async with on_failure(report):
        result = await _spoken(body.item(index), index, server, id)
    assert result is not None
    return result.status == "success", await server.encoders.run(_written, result)


async def _spoken(body: SpeechBody, index: int, server: ServerState, id: str) -> SpeechBatchResult:
    body = body.in_format(server.settings.speech.default_response_format)
    request = await server.speech.routed(replace(body.to_domain(id), is_live=False))
    capabilities = server.speech.model(request.model).capabilities
    rate_hz = request.sample_rate_hz or capabilities.sample_rate_hz
    channels = capabilities.channels
    words = WordTimestampCollector() if request.word_timestamps else None
    events = open_tagged(body, request, server)
    observers = () if words is None else (words.add,)
    format = body.response_format
    encoding = FileEncoding(format, rate_hz, server.encoders, channels, is_whole=True)
    pieces, ended = await encoding.collected(events, observers)
    memory_budget.count_as_base64(sum(map(len, pieces)))
    return SpeechBatchResult(
        index=index,
        status="success",
        audio_data=await server.encoders.run(lambda: base64.b64encode(b"".join(pieces)).decode()),
        media_type=format.content_type(rate_hz, channels),
        sample_rate=rate_hz,
        finish_reason=ended.reason,
        usage=SpeechBatchUsage.model_validate(ended.usage),
        timestamps=None if words is None else words.take(),
        unspoken=list(ended.unspoken) or None,
    )


def _written(result: SpeechBatchResult) -> bytes:
    return result.model_dump_json().encode()
