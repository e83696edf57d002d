"""Answers that clients get as server-sent events or as JSON, as they ask."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.responses import Response

from antiphon.api.delivery import EVENT_STREAM
from antiphon.api.errors import wire_error
from antiphon.api.streaming import OnClose, Pieces, StreamedResponse, WholeResponse
from antiphon.telemetry.tracing import until_first


def events_or_json(
    events: Pieces | None,
    whole: Callable[[], Awaitable[list[bytes]]],
    headers: Mapping[str, str],
    *,
    first: str,
    on_close: OnClose,
) -> Response:
    """Return a response of server-sent events, or of JSON.

    Args:
        events: Events to send; ``None``: JSON is wanted.
        headers: Headers besides those about caches.
        first: Name of the span that ends with the first event.
        on_close: Callback at the end, as in `StreamedResponse`.
    """
    headers = {"Cache-Control": "no-cache", **headers}
    if events is not None:
        headers["X-Accel-Buffering"] = "no"
        return StreamedResponse(until_first(first, events), headers, EVENT_STREAM, on_close)

    async def collect() -> tuple[list[bytes], dict[str, str]]:
        return await whole(), {}

    return WholeResponse(collect, headers, "application/json")


def event(name: str, data: Mapping[str, Any]) -> bytes:
    """Return a server-sent event; ``event:`` and ``type`` both carry its name."""
    line = json.dumps({"type": name, **data}, ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\ndata: {line}\n\n".encode()


def error_event(error: Exception) -> bytes:
    """Return the event of a failure, as the last one of a stream."""
    return event("error", wire_error(error).body())
