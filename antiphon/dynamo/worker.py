"""``python -m antiphon.dynamo.worker MODEL``: the whole engine as a worker of NVIDIA Dynamo.

Requests come from Dynamo's own front end and go through the API within this process, with the
checks, limits and encoders of requests over HTTP. See docs/dynamo.md.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from typing import Any

import uvloop
from dynamo.common.backend.engine import EngineConfig, RawEngine
from dynamo.common.backend.health_check import build_raw_health_check_payload
from dynamo.common.backend.run import run
from dynamo.common.backend.worker import WorkerConfig
from dynamo.llm import HttpError, ModelInput
from dynamo.llm.exceptions import EngineShutdown, InvalidArgument

from antiphon.api.app import create_app
from antiphon.api.in_process import InProcessCall, ended_within, for_one_caller
from antiphon.api.middleware.base import REQUEST_ID_HEADER
from antiphon.config import Settings
from antiphon.contracts.types import Caller
from antiphon.dynamo.flags import REALTIME, parsed_flags
from antiphon.dynamo.realtime import serve
from antiphon.dynamo.routes import DynamoRoute, Members, speech_at
from antiphon.errors import AntiphonError, InvalidRequestError, ModelLoadError


class DynamoEngine(RawEngine):
    """A task of the API behind Dynamo's contract of an engine."""

    def __init__(self, settings: Settings, route: DynamoRoute) -> None:
        self._app = create_app(for_one_caller(settings))
        self._grace_s = settings.limits.grace_s
        self._route = route
        self._loaded = AsyncExitStack()
        self._calls: dict[str, InProcessCall] = {}

    @classmethod
    async def from_args(cls, argv: list[str] | None = None) -> tuple["DynamoEngine", WorkerConfig]:
        settings, route, flags = parsed_flags(argv)
        config = WorkerConfig(model_input=ModelInput.Text, enable_kv_routing=False, **flags)
        return cls(settings, route), config

    async def start(self, worker_id: int) -> EngineConfig:
        """Load and warm the model; requests may follow at once; raises ModelLoadError."""
        await self._loaded.enter_async_context(self._app.router.lifespan_context(self._app))
        await self._app.state.server.warm_up
        models = self._route.models(self._app.state.server)
        if not models:
            raise ModelLoadError(f"The model does not serve '{self._route.endpoint_types}'.")
        (self._model,) = models.values()
        described = self._route.described(self._model.capabilities)
        return EngineConfig(self._model.name, runtime_data=described)

    async def generate(self, request: Members, context: Any) -> AsyncGenerator[Members, None]:
        """Yield the answer, in pieces if it streams."""
        route, id = self._route, context.id()
        try:
            body = route.body(request)
        except InvalidRequestError as error:
            raise InvalidArgument(error.message) from error
        call = InProcessCall(self._app, route.path(body), body, {REQUEST_ID_HEADER: id})
        self._calls[id] = call
        named = {"id": id, "model": self._model.name}
        try:
            status, headers = await call.begin()
            if status >= 400:
                raise self._refusal(status, json.loads(await call.body())["error"]["message"])
            if route.wants_address(request):
                yield {**named, **speech_at(await self._kept(await call.body(), body), body)}
                return
            if "content-length" in headers:
                yield {**named, **route.chunk(await call.body(), body)}
                return
            async with aclosing(call.pieces()) as pieces:
                async for piece in pieces:
                    yield {**named, **route.chunk(piece, body)}
        finally:
            self._calls.pop(id, None)
            await call.aclose()

    async def _kept(self, file: bytes, body: Members) -> str:
        media = self._app.state.server.media
        try:
            url: str = await media.keep(file, body["response_format"], Caller(), "")
        except AntiphonError as error:
            raise self._refusal(error.status, error.message) from error
        return url

    def _refusal(self, status: int, message: str) -> Exception:
        """Return the exception for a refusal; Dynamo shows the message of wrong requests only."""
        if self._app.state.server.has_failed:
            return EngineShutdown(message)  # the front end sends no more requests to this worker
        is_wrong = status < 500 and status != 429
        return InvalidArgument(message) if is_wrong else HttpError(status, message)

    async def abort(self, context: Any) -> None:
        """Stop a request: Dynamo suspends its generator without closing it."""
        if (call := self._calls.pop(context.id(), None)) is not None:
            call.task.cancel()

    async def health_check_payload(self) -> Members | None:
        sample = self._route.sample(self._model.capabilities)
        return build_raw_health_check_payload(sample)

    async def cleanup(self) -> None:
        """Drain running streams, which Dynamo continues during this call."""
        await ended_within(self._grace_s, self._calls.values())
        await self._loaded.aclose()


def main() -> None:
    """Run a worker; invalid settings give one line on stderr."""
    try:
        settings, route, flags = parsed_flags(None)
        if flags["endpoint_types"] == REALTIME:
            uvloop.run(serve(settings, route, flags))
        else:
            run(DynamoEngine)
    except AntiphonError as error:
        raise SystemExit(f"antiphon: {error.message}") from error


if __name__ == "__main__":
    main()
