"""``--realtime``: the WebSocket ``/v1/realtime`` of Dynamo's front end, served by that of the API.

Dynamo's front end parses all events of clients and workers: members that its types require are
added here.
"""

import asyncio
import json
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

from dynamo.common.utils.graceful_shutdown import get_grace_period_seconds
from dynamo.common.utils.runtime import create_runtime
from dynamo.llm import ModelInput, ModelRuntimeConfig, ModelType, WorkerType, register_model
from fastapi import FastAPI

from antiphon.api.app import create_app
from antiphon.api.in_process import InProcessSocket, ended_within, for_one_caller
from antiphon.api.middleware.base import REQUEST_ID_HEADER
from antiphon.api.realtime_events import event
from antiphon.config import Settings
from antiphon.dynamo.routes import DynamoRoute, Members
from antiphon.errors import ModelLoadError

PATH = "/v1/realtime"
_INPUT_FORMAT = {"type": "audio/pcm", "rate": 24_000}
_POLL_S, _QUIET_POLLS = 0.1, 5


class RealtimeEngine:
    """Sessions of the API behind Dynamo's contract of a bidirectional handler."""

    def __init__(self, app: FastAPI) -> None:
        """Serve through an API whose lifespan has been entered."""
        self._app = app
        self._sockets: set[InProcessSocket] = set()

    async def generate(
        self, sent: AsyncIterator[Members], context: Any
    ) -> AsyncGenerator[Members, None]:
        """Yield the events of one session until its client leaves.

        The end of ``sent`` ends nothing: the client may still be waiting for audio. When the client
        leaves, Dynamo stops the context but does not close this generator.
        """
        headers = {REQUEST_ID_HEADER: context.id()}
        socket = InProcessSocket(self._app, PATH, headers, sent)
        self._sockets.add(socket)
        leaving = asyncio.ensure_future(context.async_killed_or_stopped())
        leaving.add_done_callback(lambda _: socket.task.cancel())
        try:
            async for message in socket.messages():
                if message.get("type") != "session.created":  # the front end has sent its own
                    yield accepted(message)
        finally:
            leaving.cancel()
            self._sockets.discard(socket)
            await socket.aclose()

    async def drain(self, grace_s: float) -> None:
        """End all sessions once their speech has been sent, at the latest after ``grace_s``."""
        latest_s = time.monotonic() + grace_s
        num_quiet = 0
        while num_quiet < _QUIET_POLLS and time.monotonic() < latest_s:
            await asyncio.sleep(_POLL_S)
            num_quiet = 0 if self._is_busy() else num_quiet + 1
        await ended_within(0, self._sockets)

    def _is_busy(self) -> bool:
        is_sending = any(socket.is_sending for socket in self._sockets)
        return is_sending or self._app.state.server.num_speaking > 0


def accepted(message: Mapping[str, Any]) -> Members:
    """Return an event of the API with all members that Dynamo's front end requires."""
    if "type" not in message:  # the body of a refused handshake
        return event("error", **message)
    added = {**message}
    if (session := message.get("session")) is not None:
        audio = session["audio"]
        output = {**audio["output"], "voice": audio["output"]["voice"] or "default"}
        input = {"format": _INPUT_FORMAT, **audio["input"]}
        added["session"] = {**session, "audio": {"input": input, "output": output}}
    if (response := message.get("response")) is not None:
        added["response"] = {"max_output_tokens": "inf", **response}
        if (metadata := response["metadata"]) is not None:
            texts = {name: _as_text(value) for name, value in metadata.items()}
            added["response"]["metadata"] = texts
        if error := (response["status_details"] or {}).get("error"):
            details = {**response["status_details"], "error": {**error, "code": str(error["code"])}}
            added["response"]["status_details"] = details
    return added


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


async def serve(settings: Settings, route: DynamoRoute, flags: Mapping[str, Any]) -> None:
    """Serve sessions until SIGTERM or SIGINT; raises ModelLoadError."""
    planes = (flags["discovery_backend"], flags["request_plane"], flags["event_plane"])
    runtime, loop = create_runtime(*planes, response_plane=flags["response_plane"])
    name = flags["model_name"]
    app = create_app(for_one_caller(settings))
    async with app.router.lifespan_context(app):
        await app.state.server.warm_up
        if not (models := route.models(app.state.server)):
            raise ModelLoadError("The model does not speak.")
        (model,) = models.values()
        endpoint = runtime.endpoint(f"{flags['namespace']}.{flags['component']}.generate")
        engine = RealtimeEngine(app)

        async def stop() -> None:
            await endpoint.unregister_endpoint_instance()
            await asyncio.sleep(get_grace_period_seconds())
            await engine.drain(settings.limits.grace_s)
            runtime.shutdown()

        stopping: list[asyncio.Task[None]] = []

        def begin_to_stop() -> None:
            if not stopping:
                stopping.append(loop.create_task(stop(), name="stop"))

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, begin_to_stop)
        described = ModelRuntimeConfig()
        for key, value in route.described(model.capabilities).items():
            described.set_engine_specific(key, json.dumps(value))
        await register_model(
            ModelInput.Text,
            ModelType.Realtime,
            endpoint,
            name,
            name,
            worker_type=WorkerType.Aggregated,
            runtime_config=described,
        )
        await endpoint.serve_bidirectional_endpoint(
            engine.generate, metrics_labels=[("model", name)]
        )
        await asyncio.gather(*stopping)
