"""uvicorn's options for our HTTP and WebSocket protocols."""

import sys
from collections.abc import Mapping
from typing import Any

from antiphon.api.sockets import MAX_MESSAGE_BYTES
from antiphon.api.transport.connection import Timeouts
from antiphon.api.transport.connections import Connections
from antiphon.api.transport.feed_queue import FeedQueue
from antiphon.api.transport.http_protocol import http_protocol
from antiphon.api.transport.websocket_protocol import BoundedWebSocket
from antiphon.config import LimitSettings
from antiphon.telemetry.metrics import Metrics


def uvicorn_options(
    limits: LimitSettings,
    metrics: Metrics,
    *,
    http: str = "auto",
    max_open: int = sys.maxsize,
    queue: FeedQueue | None = None,
) -> Mapping[str, Any]:
    """Return options for `uvicorn.Config`.

    Args:
        http: Parser; ``auto``: httptools where it is installed.
        max_open: limits connections in any state.
        queue: Queue of connections to be fed, which callers may inspect.
    """
    timeouts = Timeouts(
        Connections(limits, metrics, max_open),
        metrics,
        header_timeout_s=limits.header_timeout_s,
        write_timeout_s=limits.write_timeout_s,
        queue=queue or FeedQueue(),
    )
    return {
        "http": http_protocol(http, timeouts),
        "ws": BoundedWebSocket,
        "ws_max_size": MAX_MESSAGE_BYTES,
        "ws_per_message_deflate": False,  # audio does not shrink
        # A client that plays as it reads answers pings late: what is written has its own deadline.
        "ws_ping_interval": 20.0,
        "ws_ping_timeout": None,
    }
