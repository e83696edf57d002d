"""Processes that share a socket share its connections; here two listeners stand for two of them."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

import pytest

from antiphon.api.transport.listener import MAX_LEAD, STEP_BACK_S, ConnectionListener
from tests.servers import DEADLINE_S

NUM = 40


class Counting(asyncio.Protocol):
    def __init__(self, count: Callable[[], None]) -> None:
        self._count = count

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._count()
        transport.close()


async def connected(port: int, number: int) -> None:

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()

    await asyncio.wait_for(asyncio.gather(*(one() for _ in range(number))), DEADLINE_S)


@pytest.mark.parametrize("loads", ["even", "one leads", "both lead"])
async def test_each_takes_its_share_and_whoever_leads_takes_what_is_left(loads: str) -> None:
    bound = socket.create_server(("127.0.0.1", 0))
    taken = [0, 0]

    def take(index: int) -> None:
        taken[index] += 1

    def lead(index: int) -> int:
        if loads == "even":
            return taken[index] - min(taken)
        return NUM if loads == "both lead" or index == 0 else 0

    with bound, bound.dup() as other:
        listeners = [
            ConnectionListener(
                [each], partial(Counting, partial(take, index)), partial(lead, index)
            )
            for index, each in enumerate((bound, other))
        ]
        await connected(bound.getsockname()[1], NUM)
        assert sum(taken) == NUM
        if loads == "even":
            assert abs(taken[0] - taken[1]) <= MAX_LEAD + 1
        listeners[1].close()
        await listeners[1].wait_closed()
        before = taken[0]
        await connected(bound.getsockname()[1], NUM)
        assert taken[0] == before + NUM, "the other one takes all"
        listeners[0].close()


async def test_one_process_alone_takes_a_burst_in_few_turns() -> None:
    bound = socket.create_server(("127.0.0.1", 0), backlog=NUM)
    taken: list[float] = []
    with bound:
        clients = [socket.create_connection(bound.getsockname()) for _ in range(NUM)]
        listener = ConnectionListener([bound], lambda: Counting(lambda: taken.append(1)))
        num_turns = 0
        while len(taken) < NUM:
            await asyncio.sleep(0)
            num_turns += 1
        listener.close()
        await listener.wait_closed()
        for client in clients:
            client.close()
    assert num_turns < NUM


@pytest.mark.parametrize("lead", [None, lambda: NUM], ids=["alone", "leads"])
async def test_where_there_is_no_room_connections_wait_in_the_kernel(
    lead: Callable[[], int] | None,
) -> None:
    bound = socket.create_server(("127.0.0.1", 0), backlog=NUM)
    taken, has_room = list[int](), False
    with bound:
        listener = ConnectionListener(
            [bound], lambda: Counting(lambda: taken.append(1)), lead, lambda: not has_room
        )
        connecting = asyncio.create_task(connected(bound.getsockname()[1], NUM))
        for _ in range(10):
            await asyncio.sleep(STEP_BACK_S)
        assert not taken
        has_room = True
        await connecting
        assert len(taken) == NUM
        listener.close()
        await listener.wait_closed()
