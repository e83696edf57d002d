"""The queue of connections to be fed: in order, one in each turn, none forgotten."""

import asyncio
from functools import partial

from antiphon.api.transport.feed_queue import MAX_DELAY_S, MAX_WAITING, FeedQueue
from tests.clock import Clock


async def test_calls_come_in_order_and_each_goes_on_before_the_next() -> None:
    made, loop = list[tuple[str, int]](), asyncio.get_running_loop()
    queue = FeedQueue(Clock())

    def feed(number: int) -> None:
        made.append(("fed", number))
        loop.call_soon(made.append, ("goes on", number))

    for number in range(10):
        queue.add(partial(feed, number))
    while len(made) < 20:
        await asyncio.sleep(0)
    assert [number for kind, number in made if kind == "fed"] == [*range(10)]
    places = {each: place for place, each in enumerate(made)}
    assert all(places["goes on", n] < places.get(("fed", n + 2), 20) for n in range(10))


async def test_a_call_that_is_added_by_another_waits_for_the_next_turn() -> None:
    made = list[str]()
    queue = FeedQueue(Clock())

    def feed() -> None:
        made.append("first")
        queue.add(lambda: made.append("second"))

    queue.add(feed)
    await asyncio.sleep(0)
    assert made == ["first"]
    await asyncio.sleep(0)
    assert made == ["first", "second"]


async def test_accepting_goes_first_but_not_for_ever() -> None:
    clock, made = Clock(), list[float]()
    queue = FeedQueue(clock)
    queue.add(lambda: made.append(clock.now_s))
    while not made:
        queue.yield_to_accepts()
        await asyncio.sleep(0)
        clock.now_s += MAX_DELAY_S / 10
    assert MAX_DELAY_S < made[0] <= 1.2 * MAX_DELAY_S


async def test_it_is_full_until_it_has_fed_some() -> None:
    queue = FeedQueue()
    for number in range(MAX_WAITING):
        assert not queue.is_full(), number
        queue.add(lambda: None)
    assert queue.is_full()
    while queue.is_full():
        await asyncio.sleep(0)
