"""``--realtime``, driven as Dynamo drives it: events in and events out."""

import asyncio
import base64
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from antiphon.api.app import create_app
from antiphon.api.in_process import for_one_caller
from antiphon.config import LimitSettings, Settings
from antiphon.dynamo.flags import parsed_flags
from antiphon.errors import SettingsError
from tests.dynamo.stand_in import DynamoContext, Runtime
from tests.loops import until
from tests.servers import DEADLINE_S, TOY

Event = dict[str, Any]
SENTENCE = "So much to tell, and so little time. "
SAMPLES_A_CHARACTER = 2 * 960
UPDATE = {"type": "session.update", "session": {"type": "realtime", "model": "toy"}}
CREATE = {"type": "response.create"}


def append(text: str) -> Event:
    return {"type": "input_text.append", "text": text}


class Session:
    """A client of Dynamo's front end, and what the front end makes of the worker's events."""

    def __init__(self, engine: Any) -> None:
        self.context = DynamoContext()
        self._sent: asyncio.Queue[Event | None] = asyncio.Queue()
        self.events = engine.generate(self._stream(), self.context)
        self.send(UPDATE)

    def send(self, *events: Event | None) -> None:
        for each in events:
            self._sent.put_nowait(each)

    async def _stream(self) -> AsyncGenerator[Event, None]:
        while (sent := await self._sent.get()) is not None:
            yield sent

    async def until(self, type: str) -> list[Event]:
        found: list[Event] = []
        async with asyncio.timeout(DEADLINE_S):
            while not found or found[-1]["type"] != type:
                found.append(read(await anext(self.events)))
        return found


def read(event: Event) -> Event:
    """Check an event as the types of Dynamo's front end do."""
    assert isinstance(event["event_id"], str)
    if "session" in event:
        audio = event["session"]["audio"]
        assert audio["input"]["format"]["type"] == "audio/pcm"
        assert isinstance(audio["output"]["voice"], str)
        assert isinstance(audio["output"]["speed"], float)
    if "response" in event:
        response = event["response"]
        assert response["max_output_tokens"] == "inf"
        assert all(isinstance(each, str) for each in (response.get("metadata") or {}).values())
        if error := (response["status_details"] or {}).get("error"):
            assert isinstance(error["code"], str)
    if event["type"] == "error":
        assert {"type", "message"} <= event["error"].keys()
    return event


def num_samples(events: list[Event]) -> int:
    deltas = [each["delta"] for each in events if each["type"] == "response.output_audio.delta"]
    return sum(len(base64.b64decode(each)) // 2 for each in deltas)


@asynccontextmanager
async def serving(settings: Settings = TOY) -> AsyncGenerator[Any, None]:
    """Return an engine for sessions; check that nothing is left of them."""
    app = create_app(for_one_caller(settings))
    async with app.router.lifespan_context(app):
        await app.state.server.warm_up
        yield sys.modules["antiphon.dynamo.realtime"].RealtimeEngine(app)
        async with asyncio.timeout(DEADLINE_S):
            await until(lambda: not app.state.server.num_speaking)


def run(talk: Callable[[Any], Awaitable[None]], settings: Settings = TOY) -> None:
    async def talked() -> None:
        async with serving(settings) as engine:
            await talk(engine)

    asyncio.run(talked())


pytestmark = pytest.mark.usefixtures("worker")


def test_text_is_spoken_while_it_arrives() -> None:
    async def talk(engine: Any) -> None:
        session = Session(engine)
        assert [each["type"] for each in await session.until("session.updated")] == [
            "session.updated"  # the front end has sent session.created
        ]
        session.send(append(SENTENCE), append(SENTENCE), CREATE)
        heard = await session.until("response.output_audio.delta")
        session.send(append(SENTENCE), {"type": "input_text.commit"})
        heard += await session.until("response.done")
        assert heard[-1]["response"]["status"] == "completed"
        (item,) = heard[-1]["response"]["output"]
        assert item["content"][0]["transcript"] == SENTENCE * 3
        assert num_samples(heard) >= len(SENTENCE.strip()) * 3 * SAMPLES_A_CHARACTER
        session.context.stop_generating()
        async with aclosing(session.events) as events:
            assert [each async for each in events] == []

    run(talk)


def test_a_client_that_leaves_frees_the_engine_though_nobody_closes_the_generator() -> None:
    async def talk(engine: Any) -> None:
        session = Session(engine)
        session.send(append(SENTENCE * 400), CREATE)
        await session.until("response.output_audio.delta")
        session.context.stop_generating()  # `serving` waits for the engine

    run(talk)


def test_the_end_of_the_input_does_not_end_the_speech() -> None:
    async def talk(engine: Any) -> None:
        session = Session(engine)
        session.send(append(SENTENCE), CREATE, {"type": "input_text.commit"}, None)
        heard = await session.until("response.done")
        assert heard[-1]["response"]["status"] == "completed"
        session.context.stop_generating()

    run(talk)


def test_a_response_is_cancelled_and_its_metadata_are_texts() -> None:
    async def talk(engine: Any) -> None:
        session = Session(engine)
        session.send(append(SENTENCE * 400), {**CREATE, "response": {"metadata": {"turn": 1}}})
        created = (await session.until("response.output_audio.delta"))[1]
        assert created["response"]["metadata"] == {"turn": "1"}
        session.send({"type": "response.cancel"})
        over = (await session.until("response.done"))[-1]["response"]
        assert over["status"] == "cancelled"
        session.send({"type": "input_text.commit"})
        refused = (await session.until("error"))[-1]["error"]
        assert "no text to commit" in refused["message"]
        session.context.stop_generating()

    run(talk)


def test_a_refused_session_is_told_why() -> None:
    async def talk(engine: Any) -> None:
        first, second = Session(engine), Session(engine)
        await first.until("session.updated")
        refused = (await second.until("error"))[-1]["error"]
        assert refused["message"]
        with pytest.raises(StopAsyncIteration):
            await anext(second.events)
        first.context.stop_generating()

    run(talk, TOY.model_copy(update={"limits": LimitSettings(max_sockets=1)}))


def test_draining_waits_for_speech_and_not_for_silent_sessions() -> None:
    async def talk(engine: Any) -> None:
        silent, speaking = Session(engine), Session(engine)
        await silent.until("session.updated")
        speaking.send(append(SENTENCE * 12), CREATE, {"type": "input_text.commit"})
        await speaking.until("response.output_audio.delta")
        draining = asyncio.create_task(engine.drain(DEADLINE_S))
        heard = await speaking.until("response.done")
        assert heard[-1]["response"]["status"] == "completed"
        await asyncio.wait_for(draining, DEADLINE_S)
        for session in (silent, speaking):
            with pytest.raises(StopAsyncIteration):
                await anext(session.events)

    run(talk)


async def test_the_worker_registers_the_model_and_stops_at_a_signal() -> None:
    settings, route, flags = parsed_flags(["toy", "--realtime", "--discovery-backend", "file"])
    serve = sys.modules["antiphon.dynamo.realtime"].serve
    serving = asyncio.create_task(serve(settings, route, flags))
    await until(lambda: hasattr(Runtime, "last") and hasattr(Runtime.last, "served"))
    endpoint = Runtime.last.served
    await until(lambda: endpoint.is_registered)
    assert Runtime.last.planes == ("file", "tcp", "zmq", "tcp")
    assert endpoint.path == "dynamo.toy-realtime.generate"
    assert endpoint.model["type"] == "realtime"
    assert endpoint.model["name"] == "toy"
    voices = endpoint.model["runtime_config"].runtime_data
    assert voices == {"voices": '["sine", "alto", "bass"]'}
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
    assert not endpoint.is_registered


def test_only_speech_is_realtime() -> None:
    with pytest.raises(SettingsError, match="--realtime: Dynamo has no realtime requests"):
        parsed_flags(["toy", "--realtime", "--task", "image"])
