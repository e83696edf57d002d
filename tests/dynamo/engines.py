"""Engines of the worker of NVIDIA Dynamo, and what its front end makes of their chunks."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

from antiphon.config import Settings
from antiphon.dynamo.routes import ROUTES
from tests.dynamo.stand_in import DynamoContext
from tests.servers import DEADLINE_S, TOY

Engine = Any


@asynccontextmanager
async def started(
    worker: ModuleType, settings: Settings = TOY, task: str = "speech"
) -> AsyncGenerator[Engine, None]:
    engine = worker.DynamoEngine(settings, ROUTES[task])
    await engine.start(worker_id=1)
    try:
        yield engine
    finally:
        await asyncio.wait_for(engine.cleanup(), DEADLINE_S)


async def chunks_of(engine: Engine, request: dict[str, Any]) -> list[dict[str, Any]]:
    return [chunk async for chunk in engine.generate(request, DynamoContext())]


def audio_of(chunks: list[dict[str, Any]]) -> bytes:
    """Return the bytes that Dynamo's front end sends of chunks."""
    return b"".join(base64.b64decode(data["b64_json"]) for each in chunks for data in each["data"])


def ask(
    worker: ModuleType, request: dict[str, Any], settings: Settings = TOY, task: str = "speech"
) -> list[dict[str, Any]]:

    async def asked() -> list[dict[str, Any]]:
        async with started(worker, settings, task) as engine:
            return await chunks_of(engine, request)

    return asyncio.run(asked())
