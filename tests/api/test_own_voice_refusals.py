"""Answers that cannot be spoken for want of room are refused before anything is written."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.crowds import filled
from tests.api.test_chat_audio import OWN, URL
from tests.decoding import error_of
from tests.own_voices import start_own_voice
from tests.servers import RunningServer, wait_until
from tests.sockets import connected, messages


@pytest.fixture(scope="module")
def server(own_voice_checkpoint: Path) -> Generator[RunningServer, None, None]:
    with start_own_voice(own_voice_checkpoint, model={"max_waiting": 0}) as running:
        yield running


def wait_until_idle(server: RunningServer) -> None:
    """Wait until the engines have freed the slots of all requests, after their last steps."""

    def is_idle() -> bool:
        stats = [each for *_, each in server.state.models.engine_stats()]
        busy = sum(each.requests_running + each.requests_waiting for each in stats)
        return server.num_open == 0 and not busy

    wait_until(is_idle)


def wait_until_spoken(server: RunningServer) -> None:
    """Wait until an answer is spoken: no request waits, and a later step frees a slot."""
    url = f"{server.base_url}{URL}"
    wait_until(lambda: httpx.post(url, json=OWN, timeout=60).status_code == 200)


@contextmanager
def full(server: RunningServer) -> Generator[None, None, None]:
    """Have others keep all the room that there is for speech."""
    wait_until_idle(server)
    with filled(server, server.state.models.chat_voices["omni"]):
        yield
    wait_until_idle(server)


def num_written(server: RunningServer) -> int:
    stats = [each for _, stage, each in server.state.models.engine_stats() if "model" in stage]
    return sum(each.prefill_positions + each.frames for each in stats)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_request_is_refused_before_its_first_byte(
    server: RunningServer, is_streamed: bool
) -> None:
    with full(server):
        before = num_written(server)
        response = httpx.post(
            f"{server.base_url}{URL}", json={**OWN, "stream": is_streamed}, timeout=60
        )
        error = error_of(response, 429)
        assert error["code"] == "overloaded"
        assert float(response.headers["Retry-After"]) >= 1
        assert num_written(server) == before
        silent = {name: OWN[name] for name in OWN if name not in ("modalities", "audio")}
        written = httpx.post(f"{server.base_url}{URL}", json=silent, timeout=60)
        assert written.status_code == 200, "what is not spoken needs no voice"
    assert server.num_open == 0
    wait_until_spoken(server)


def test_an_agent_says_so_without_a_word(server: RunningServer) -> None:
    asked: dict[str, Any] = {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "How are you?"}]}],
        "max_output_tokens": 4,
        "temperature": 0,
    }
    with connected(server, "/v1/realtime") as talk:
        talk.receive()
        with full(server):
            before = num_written(server)
            talk.send("response.create", response=asked)
            created, done = messages(talk.until("response.done"))
            assert num_written(server) == before
        assert created["type"] == "response.created"
        response = done["response"]
        assert response["status"] == "failed"
        assert response["status_details"]["error"]["code"] == "overloaded"
        assert response["output"] == []
        wait_until_spoken(server)
        wait_until_idle(server)
        talk.send("response.create", response=asked)
        done = messages(talk.until("response.done"))[-1]["response"]
        assert done["status"] == "incomplete", "at its limit, as there is room again"
    wait_until(lambda: server.num_open == 0)


def test_leaving_at_any_moment_leaves_no_room_kept(server: RunningServer) -> None:
    async def leave_after(delay_s: float) -> None:
        body = {**OWN, "stream": True, "max_tokens": 100}
        async with httpx.AsyncClient() as client:
            try:
                async with asyncio.timeout(delay_s):
                    await client.post(f"{server.base_url}{URL}", json=body)
            except TimeoutError:
                return

    for number in range(8):
        asyncio.run(leave_after(0.01 * 1.6**number))
    wait_until(lambda: server.num_open == 0)
    wait_until_spoken(server)
