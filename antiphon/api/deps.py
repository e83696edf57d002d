"""Dependencies of routes, by type; coroutines, since FastAPI calls plain functions in a thread."""

from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from antiphon.api.middleware.base import CALLER
from antiphon.api.state import ServerState
from antiphon.contracts.types import Caller, random_hex
from antiphon.telemetry import logs


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


async def speech_id() -> str:
    """Return a fresh id that begins with the request's own.

    Clients choose request ids and may repeat them; inside, two requests must never share one.
    """
    return f"{logs.request_id.get()}/{random_hex(8)}"


Asking = Annotated[Caller, Depends(caller)]
Server = Annotated[ServerState, Depends(server_state)]
SpeechId = Annotated[str, Depends(speech_id)]
