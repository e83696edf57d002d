"""All that a running server holds, in one place, and the dependencies of routes on it.

Dependencies are coroutines, since FastAPI calls plain functions in a thread.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from antiphon.api.middleware.base import CALLER
from antiphon.api.middleware.connection_limits import ConnectionLimits
from antiphon.api.middleware.keys import KeyRing
from antiphon.api.middleware.limit_table import LimitTable
from antiphon.api.middleware.memory_budget import MemoryBudget
from antiphon.api.storage_watch import StorageWatch
from antiphon.concurrency import Workers
from antiphon.config import Settings
from antiphon.contracts.types import Caller, random_hex
from antiphon.media.image_files import ImageFiles
from antiphon.media.references import ReferenceLoader
from antiphon.pipeline.chat.service import Chats
from antiphon.pipeline.media_files import MediaFiles
from antiphon.pipeline.model_loading import ServedModels
from antiphon.pipeline.pictures.images import Images
from antiphon.pipeline.pictures.videos import Videos
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.voice_service import VoiceService
from antiphon.telemetry import logs
from antiphon.telemetry.metrics import Metrics
from antiphon.voices.recordings import Recordings


@dataclass(frozen=True, slots=True)
class Guards:
    """What requests meet before any route does; there before the server starts.

    Attributes:
        table: Counters of limits, shared with other front ends of the same server.
    """

    connections: ConnectionLimits
    keys: KeyRing
    metrics: Metrics
    memory: MemoryBudget
    table: LimitTable


@dataclass(frozen=True, slots=True)
class ServerState:
    """Made when the server starts, closed when it stops; nothing of it is global.

    Attributes:
        media: Store of images and videos that clients fetch.
        encoders: threads that all encoding runs in.
        uploaded: voices and consents that the server keeps.
        warm_up: ends when the models are warm.
        storage: whether what is kept can be read.
        created_s: Unix time at which the models were loaded.
    """

    settings: Settings
    models: ServedModels
    speech: Speech
    chats: Chats
    images: Images
    image_files: ImageFiles
    media: MediaFiles
    videos: Videos
    encoders: Workers
    references: ReferenceLoader
    recordings: Recordings
    uploaded: VoiceService
    warm_up: "asyncio.Task[None]"
    guards: Guards
    storage: StorageWatch
    created_s: int

    def seen_by(self, caller: Caller) -> "ServerState":
        """Return the same server with the voices that a caller may use."""
        if caller == self.uploaded.caller:
            return self
        uploaded = self.uploaded.seen_by(caller)
        return replace(self, uploaded=uploaded, speech=self.speech.with_voices(uploaded))

    @property
    def hindrances(self) -> list[str]:
        """Why traffic should go elsewhere: models are cold or broken, or storage is, or the end."""
        found = ["a model has failed, or hangs"] if self.has_failed else []
        found += self.storage.problems
        broken = {each.name: None for each in self.models.tasks if not each.status.num_replicas}
        found += [f"no replica of {name} runs" for name in broken]
        if self.guards.connections.is_draining:
            found.append("the server is stopping")
        if not self.warm_up.done():
            found.append("the models are not warm yet")
        elif self.warm_up.cancelled() or self.warm_up.exception() is not None:
            found.append("the models could not be warmed up")
        return found

    @property
    def has_failed(self) -> bool:
        """Whether a task of a model cannot be served any more."""
        stall_s = self.settings.limits.stall_s
        return any(model.status.fault(stall_s) is not None for model in self.models.tasks)

    @property
    def num_speaking(self) -> int:
        """Streams that are open, over all models and their stages."""
        return sum(model.status.num_open for model in self.models.tasks)


async def caller(connection: HTTPConnection) -> Caller:
    """Return the caller of a connection; one that was not authenticated has no rights."""
    found = connection.scope.get(CALLER, Caller())
    assert isinstance(found, Caller)
    return found


async def server_state(
    connection: HTTPConnection, caller: Annotated[Caller, Depends(caller)]
) -> ServerState:
    """Return the state that the lifespan has made, with the voices that its caller may use."""
    state = connection.app.state.server
    assert isinstance(state, ServerState)
    return state.seen_by(caller)


def new_speech_id() -> str:
    """Return a fresh id that begins with that of the request, or of the connection.

    Clients choose request ids and may repeat them; inside, two requests must never share one.
    """
    return f"{logs.request_id.get()}/{random_hex(8)}"


async def _speech_id() -> str:
    return new_speech_id()


Asking = Annotated[Caller, Depends(caller)]
Server = Annotated[ServerState, Depends(server_state)]
SpeechId = Annotated[str, Depends(_speech_id)]
