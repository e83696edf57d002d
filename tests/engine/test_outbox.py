"""From a thread to a slow consumer: in order, and nothing but progress is left out."""

import asyncio
import threading

from antiphon.contracts.picture_types import Progress
from antiphon.engine.outbox import Outbox


def test_items_arrive_in_order_from_any_thread() -> None:
    async def main() -> None:
        outbox: Outbox[int] = Outbox()
        thread = threading.Thread(target=lambda: [outbox.put(n) for n in range(1000)])
        thread.start()
        assert [await outbox.get() for _ in range(1000)] == [*range(1000)]
        thread.join()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_unread_progress_is_replaced_by_what_comes_right_after_it() -> None:
    async def main() -> None:
        outbox: Outbox[Progress | str] = Outbox()
        for step in range(1, 5):
            outbox.put(Progress(step, 9))
        outbox.put("preview")
        for step in range(5, 10):
            outbox.put(Progress(step, 9))
        assert [await outbox.get() for _ in range(3)] == [Progress(4, 9), "preview", Progress(9, 9)]

    asyncio.run(main())


def test_a_closed_event_loop_is_told() -> None:
    async def main() -> Outbox[str]:
        return Outbox()

    outbox = asyncio.run(main())
    assert not outbox.put("lost")
