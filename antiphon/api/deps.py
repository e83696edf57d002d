"""What routes ask for by type; coroutines, since FastAPI calls plain functions in a thread."""

import secrets
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from antiphon import telemetry
from antiphon.api.state import ServerState


async def server_state(connection: HTTPConnection) -> ServerState:
    """Return the state that the lifespan has made."""
    state = connection.app.state.server
    assert isinstance(state, ServerState)
    return state


async def speech_id() -> str:
    """Return a fresh id that begins with the request's own.

    Clients choose request ids and may repeat them; inside, two requests must never share one.
    """
    return f"{telemetry.request_id.get()}/{secrets.token_hex(4)}"


Server = Annotated[ServerState, Depends(server_state)]
SpeechId = Annotated[str, Depends(speech_id)]
