"""Who gets the next slot: first come, first served, and listeners before bulk work."""

from collections import deque
from collections.abc import Iterator
from itertools import chain, islice

from antiphon.engine.request import EngineRequest


class RequestQueue:
    """Two lines: requests that somebody listens to, and bulk work."""

    def __init__(self) -> None:
        self._live: deque[EngineRequest] = deque()
        self._bulk: deque[EngineRequest] = deque()

    def __len__(self) -> int:
        return len(self._live) + len(self._bulk)

    @property
    def num_live(self) -> int:
        """Listeners among them."""
        return len(self._live)

    @property
    def oldest_bulk(self) -> EngineRequest | None:
        """The bulk request that is next."""
        return self._bulk[0] if self._bulk else None

    def add(self, request: EngineRequest, *, is_back: bool = False) -> None:
        """Put a request at the end; at the front, if it is back from a slot."""
        line = self._line_of(request)
        if is_back:
            line.appendleft(request)
        else:
            line.append(request)

    def remove(self, request: EngineRequest) -> None:
        """Take a request out."""
        self._line_of(request).remove(request)

    def in_order(self, *, is_bulk_first: bool = False) -> Iterator[EngineRequest]:
        """Yield all: listeners, then bulk work, of which one may go first."""
        num_first = 1 if is_bulk_first else 0
        return chain(islice(self._bulk, num_first), self._live, islice(self._bulk, num_first, None))

    def _line_of(self, request: EngineRequest) -> deque[EngineRequest]:
        return self._live if request.is_live else self._bulk
