"""Calls of an ASGI app within the process."""

import asyncio
import json

import pytest
from starlette.types import Receive, Scope, Send

from antiphon.api.in_process import InProcessCall, ended_within, for_one_caller
from antiphon.config import LimitSettings, ServerSettings, Settings
from antiphon.errors import UnavailableError
from tests.servers import DEADLINE_S

START = {"type": "http.response.start", "status": 201, "headers": [(b"x-kind", b"test")]}


def piece(body: bytes, *, more: bool = True) -> dict[str, object]:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def test_the_app_gets_a_whole_request_and_its_answer_comes_back() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        assert (scope["method"], scope["path"]) == ("POST", "/a")
        assert (b"x-request-id", b"7") in scope["headers"]
        assert not message.get("more_body")
        await send(START)
        await send(piece(json.dumps([json.loads(message["body"])]).encode()))
        await send(piece(b"", more=False))

    call = InProcessCall(app, "/a", {"b": "ü"}, {"X-Request-Id": "7"})
    status, headers = await call.begin()
    assert (status, headers["X-Kind"]) == (201, "test")
    assert json.loads(await call.body()) == [{"b": "ü"}]
    await call.aclose()


async def test_the_app_is_no_more_than_a_piece_ahead() -> None:
    num_sent = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal num_sent
        await send(START)
        for _ in range(10):
            await send(piece(b"x"))
            num_sent += 1

    call = InProcessCall(app, "/", {}, {})
    await call.begin()
    pieces = call.pieces()
    for number in range(1, 11):
        assert await anext(pieces) == b"x"
        await asyncio.sleep(0)
        assert num_sent <= number
    await pieces.aclose()
    await call.aclose()
    assert num_sent == 10


@pytest.mark.parametrize("begins", [True, False])
async def test_a_failure_is_raised_where_the_answer_breaks_off(begins: bool) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if begins:
            await send(START)
            await send(piece(b"x"))
        raise KeyError("broken")

    call = InProcessCall(app, "/", {}, {})
    if begins:
        await call.begin()
    with pytest.raises(KeyError, match="broken"):
        await (call.body() if begins else call.begin())
    await call.aclose()


@pytest.mark.parametrize("begins", [True, False])
async def test_a_call_that_is_cancelled_wakes_who_waits_for_it(begins: bool) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if begins:
            await send(START)
        await receive()  # a client that stays says nothing more

    call = InProcessCall(app, "/", {}, {})
    if begins:
        await call.begin()
    waiting = asyncio.ensure_future(call.body() if begins else call.begin())
    await asyncio.sleep(0)
    call.task.cancel()
    with pytest.raises(UnavailableError):
        await asyncio.wait_for(waiting, DEADLINE_S)
    await call.aclose()


async def test_calls_get_their_time_and_not_more() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await (asyncio.Event().wait() if scope["path"] == "/hang" else asyncio.sleep(0.01))

    short, hanging = (InProcessCall(app, path, {}, {}) for path in ("/short", "/hang"))
    await ended_within(DEADLINE_S, [short])
    await ended_within(0.05, [hanging])
    await ended_within(0.05, [])
    assert not short.task.cancelled()
    assert hanging.task.cancelled()
    for call in (short, hanging):
        await call.aclose()


def test_the_one_caller_needs_no_key_and_may_have_all() -> None:
    settings = for_one_caller(
        Settings(
            server=ServerSettings(api_keys=("secret",), max_body_bytes=2048),
            limits=LimitSettings(max_requests=7, caller_places=2),
        )
    )
    assert settings.server.api_keys == ()
    assert settings.server.max_body_bytes == 2048
    assert settings.limits.caller_places == settings.limits.max_requests == 7
