"""From a thread to a slow consumer: in order, and nothing but progress is left out."""

import asyncio
import threading

import pytest

from antiphon.contracts.picture_types import Progress
from antiphon.engine.thread import Outbox, put_all


async def test_items_arrive_in_order_from_any_thread() -> None:
    outbox: Outbox[int] = Outbox()
    thread = threading.Thread(target=lambda: [outbox.put(n) for n in range(1000)])
    thread.start()
    assert [await outbox.get() for _ in range(1000)] == [*range(1000)]
    thread.join()


async def test_unread_progress_is_replaced_by_what_comes_right_after_it() -> None:
    outbox: Outbox[Progress | str] = Outbox()
    for step in range(1, 5):
        outbox.put(Progress(step, 9))
    outbox.put("preview")
    for step in range(5, 10):
        outbox.put(Progress(step, 9))
    assert [await outbox.get() for _ in range(3)] == [Progress(4, 9), "preview", Progress(9, 9)]


async def test_an_item_can_be_read_at_once() -> None:
    outbox: Outbox[int] = Outbox()
    outbox.put(1)
    reading = outbox.get()
    with pytest.raises(StopIteration) as read:  # it does not wait for the event loop
        reading.send(None)
    assert read.value.value == 1


async def test_several_outboxes_are_filled_by_one_call_and_exceptions_are_raised() -> None:
    outboxes: list[Outbox[int]] = [Outbox() for _ in range(3)]
    items = [(outbox, number) for number in range(2) for outbox in outboxes]
    assert put_all([*items, (outboxes[0], KeyError("broken"))]) == []
    assert [await outbox.get() for outbox in outboxes * 2] == [0, 0, 0, 1, 1, 1]
    with pytest.raises(KeyError):
        await outboxes[0].get()


@pytest.mark.parametrize("num_unread", [0, 2])
def test_a_closed_event_loop_is_reported(num_unread: int) -> None:
    async def main() -> Outbox[str]:
        outbox: Outbox[str] = Outbox()
        assert all(outbox.put("unread") for _ in range(num_unread))
        return outbox

    outbox = asyncio.run(main())
    assert not outbox.put("lost")
    assert put_all([(outbox, "lost")]) == [outbox.loop]
