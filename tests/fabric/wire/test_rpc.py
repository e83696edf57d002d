"""Calls, notices and streams: order, errors, flow control, cancellation, and loss."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.contracts.types import AudioChunk
from antiphon.errors import EngineError, OverloadedError, ReplicaLostError, UnknownVoiceError
from antiphon.fabric.wire.frames import WireLimits
from antiphon.fabric.wire.rpc import RpcHandlers, RpcPeer
from antiphon.fabric.wire.safe_pickle import ForeignDataError
from tests.fabric.wire.peers import LOOPS, calls, connected, streams, turns
from tests.loops import until

CHUNK = AudioChunk(np.zeros(7680, np.float32), 24_000, 4)


def num_waiting_bytes(peer: RpcPeer) -> int:
    assert peer.connection._transport is not None
    return peer.connection._transport.get_write_buffer_size()


class Counting:
    """A stream of numbers or chunks that counts how far it is, and notes its end."""

    def __init__(self) -> None:
        self.num_made = 0
        self.num_closed = 0

    async def open(
        self, number: int, *, is_audio: bool = False, pause_s: float = 0.0
    ) -> AsyncGenerator[Any, None]:
        try:
            for each in range(number):
                self.num_made += 1
                yield CHUNK if is_audio else each
                await asyncio.sleep(pause_s)
        finally:
            self.num_closed += 1

    async def audio(self, number: int) -> AsyncGenerator[Any, None]:
        async with aclosing(self.open(number, is_audio=True)) as items:
            async for item in items:
                yield item


async def test_calls_return_and_raise_what_the_method_does(tmp_path: Path) -> None:
    async def add(*numbers: int) -> int:
        return sum(numbers)

    async def refuse() -> None:
        raise UnknownVoiceError("bass", ["alto"])

    async with connected(tmp_path, calls(add=add, refuse=refuse)) as (client, _):
        assert await client.call("add", 1, 2, 3) == 6
        many = await asyncio.gather(*(client.call("add", each, 1) for each in range(50)))
        assert many == list(range(1, 51))
        with pytest.raises(UnknownVoiceError) as caught:
            await client.call("refuse")
        assert caught.value.status == 404
        assert caught.value.param == "voice"


async def test_other_errors_are_logged_where_they_happen_and_say_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise ValueError("a secret")

    async def strange() -> object:
        return object()

    async with connected(tmp_path, calls(fail=fail, strange=strange)) as (client, _):
        for method in ("fail", "strange", "nothing"):
            with pytest.raises(EngineError) as caught:
                await client.call(method)
            assert "secret" not in str(caught.value)
        with pytest.raises(ForeignDataError):
            await client.call("fail", object())
        assert client.lost is None
    assert "a secret" in caplog.text
    assert "builtins.object must not cross" in caplog.text


async def test_cancelling_a_call_cancels_the_method(tmp_path: Path) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    async with connected(tmp_path, calls(wait=wait)) as (client, _):
        calling = asyncio.create_task(client.call("wait"))
        await began.wait()
        calling.cancel()
        await ended.wait()


async def test_notices_run_in_order_in_both_directions(tmp_path: Path) -> None:
    here: list[int] = []
    there: list[int] = []
    async with connected(
        tmp_path,
        RpcHandlers(notices={"note": there.append}),
        client_handlers=RpcHandlers(notices={"note": here.append}),
    ) as (client, server):
        for number in range(100):
            client.notify("note", number)
            server.notify("note", -number)
        client.notify("nothing there")
        await until(lambda: len(here) == len(there) == 100)
    assert there == [*range(100)]
    assert here == [-number for number in range(100)]


async def test_a_failing_notice_is_reported_and_ends_nothing(tmp_path: Path) -> None:
    reported: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    noted: list[int] = []
    handlers = RpcHandlers(notices={"fail": lambda: 1 // 0, "note": noted.append})  # type: ignore[dict-item]
    async with connected(tmp_path, handlers) as (client, _):
        client.notify("fail")
        client.notify("note", 1)
        await until(lambda: bool(noted))
        assert [type(each) for each in reported] == [ZeroDivisionError]


async def test_streams_yield_raise_and_end_as_they_do_there(tmp_path: Path) -> None:
    counting = Counting()

    async def fail() -> AsyncGenerator[int, None]:
        yield 1
        raise OverloadedError("full", retry_after_s=2.5)

    async with connected(tmp_path, streams(open=counting.open, fail=fail)) as (client, there):
        assert [item async for item in client.stream("open", 100)] == [*range(100)]
        assert [item async for item in client.stream("open", 0)] == []
        failing = client.stream("fail")
        assert await anext(failing) == 1
        with pytest.raises(OverloadedError) as caught:
            await anext(failing)
        assert caught.value.retry_after_s == 2.5
        await turns()
        assert not there._tasks
        assert not there._credits
        assert not client._incoming


@pytest.mark.parametrize("window", [1, 2, 8])
async def test_a_stream_is_made_no_further_than_its_window_ahead(
    tmp_path: Path, window: int
) -> None:
    counting = Counting()
    async with connected(tmp_path, streams(open=counting.open)) as (client, _):
        stream = client.stream("open", 100, window=window)
        for number in range(30):
            assert await anext(stream) == number
            await turns()
            assert counting.num_made <= number + 1 + window
        await stream.aclose()
        await until(lambda: counting.num_closed == 1)


@pytest.mark.parametrize("anyio_backend", LOOPS)
async def test_a_stream_that_is_not_read_holds_up_no_other_and_holds_little(tmp_path: Path) -> None:
    slow, fast = Counting(), Counting()
    handlers = streams(slow=slow.audio, fast=fast.audio)
    async with connected(tmp_path, handlers) as (client, there):
        unread = [client.stream("slow", 10_000) for _ in range(8)]
        for stream in unread:
            await anext(stream)
        assert len([item async for item in client.stream("fast", 500)]) == 500
        assert slow.num_made <= 8 * 9
        held = [len(each.items) for each in client._incoming.values()]
        assert max(held) <= 8
        assert num_waiting_bytes(there) < 2**20
        for stream in unread:
            await stream.aclose()
        await until(lambda: slow.num_closed == 8)


@pytest.mark.parametrize("anyio_backend", LOOPS)
async def test_items_of_many_streams_leave_in_one_write(tmp_path: Path) -> None:
    """Writes are counted: as many for 64 streams as for one, not 64 times as many."""
    num_items = 20

    async def writes_for(num_streams: int) -> tuple[int, int]:
        tick = asyncio.Condition()
        num_waiting = 0

        async def ticking() -> AsyncGenerator[int, None]:
            nonlocal num_waiting
            for number in range(num_items):
                async with tick:
                    num_waiting += 1
                    await tick.wait()
                yield number

        async def read(stream: AsyncGenerator[int, None]) -> int:
            return sum([1 async for _ in stream])

        async with connected(tmp_path, streams(open=ticking)) as (client, there):
            reading = [asyncio.create_task(read(client.stream("open"))) for _ in range(num_streams)]
            for number in range(num_items):
                await until(lambda number=number: num_waiting == (number + 1) * num_streams)
                async with tick:
                    tick.notify_all()
            assert await asyncio.gather(*reading) == [num_items] * num_streams
            return there.connection.num_writes, client.connection.num_writes

    for alone, together in zip(await writes_for(1), await writes_for(64), strict=True):
        assert together <= alone + 3


@pytest.mark.parametrize("anyio_backend", LOOPS)
async def test_a_lost_connection_ends_everything_on_both_sides(tmp_path: Path) -> None:
    counting = Counting()
    cancelled = 0

    async def wait() -> None:
        nonlocal cancelled
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled += 1

    lost: list[int] = []
    handlers = RpcHandlers(
        calls={"wait": wait},
        streams={"open": counting.open},
        on_lost=lambda: lost.append(1),
    )
    async with connected(tmp_path, handlers) as (client, there):
        many = [client.stream("open", 1000) for _ in range(10)]
        for stream in many:
            await anext(stream)
        calling = asyncio.create_task(client.call("wait"))
        await until(lambda: all(len(each.items) >= 4 for each in client._incoming.values()))
        there.connection.abort("on purpose")
        await client.closed.wait()
        for stream in many:
            assert [await anext(stream) for _ in range(4)] == [1, 2, 3, 4]
            with pytest.raises(ReplicaLostError):
                [item async for item in stream]
        with pytest.raises(ReplicaLostError):
            await calling
        for failing in (client.call("wait"), anext(client.stream("open", 1))):
            with pytest.raises(ReplicaLostError):
                await failing
        client.notify("anything")
        await until(lambda: counting.num_closed == 10 and cancelled == 1)
        assert lost == [1]


async def test_an_item_that_must_not_cross_ends_its_own_stream_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counting = Counting()

    async def strange() -> AsyncGenerator[object, None]:
        yield 1
        yield logging

    async with connected(tmp_path, streams(open=counting.open, strange=strange)) as (client, _):
        stream = client.stream("open", 3)
        assert await anext(stream) == 0
        with pytest.raises(EngineError):
            [item async for item in client.stream("strange")]
        assert [item async for item in stream] == [1, 2]


@pytest.mark.parametrize("anyio_backend", LOOPS)
async def test_a_large_message_lets_others_pass(tmp_path: Path) -> None:
    """64 MB go in parts: calls that are made after it are answered before it has arrived."""
    sizes: list[int] = []

    async def take(data: Any) -> int:
        sizes.append(data.nbytes)
        return int(data[-1])

    async def ping() -> int:
        return len(sizes)

    async with connected(tmp_path, calls(take=take, ping=ping)) as (client, _):
        data = np.arange(16 * 2**20, dtype=np.int32)
        taking = asyncio.create_task(client.call("take", data))
        await asyncio.sleep(0)
        before = 0
        while not taking.done():
            before += await client.call("ping") == 0
        assert await taking == data[-1]
        assert sizes == [data.nbytes]
        assert before >= 5


async def test_messages_of_one_order_stay_in_order_however_large(tmp_path: Path) -> None:
    came: list[tuple[str, int]] = []

    def note(order: str, number: int, data: Any) -> None:
        came.append((order, number))

    async with connected(tmp_path, RpcHandlers(notices={"note": note})) as (client, _):
        large, small = np.zeros(2**20), np.zeros(1)
        for number, data in enumerate([large, small, large, small]):
            client.notify("note", "a", number, data, order="a")
            client.notify("note", "b", number, small, order="b")
        await until(lambda: len(came) == 8)
    assert [number for order, number in came if order == "a"] == [0, 1, 2, 3]
    assert [order for order, _ in came[:4]] == ["b"] * 4


async def test_a_message_beyond_the_limit_is_refused_by_its_sender(tmp_path: Path) -> None:
    async def size(data: Any) -> int:
        return len(data)

    limits = WireLimits(max_message_bytes=10_000)
    async with connected(tmp_path, calls(size=size), limits=limits) as (client, _):
        with pytest.raises(ForeignDataError, match="too large"):
            await client.call("size", bytes(20_000))
        assert await client.call("size", bytes(5000)) == 5000


@pytest.mark.parametrize("anyio_backend", LOOPS)
async def test_a_connection_that_is_lost_once_all_is_read_may_be_aborted(tmp_path: Path) -> None:
    async with connected(tmp_path, calls()) as (client, there):
        client.notify("nobody listens", np.zeros(2**19))  # more than a socket holds
        client.close()
        assert num_waiting_bytes(client)
        await client.connection.gone.wait()
        client.connection.abort("It was closed.")
        await there.connection.gone.wait()
