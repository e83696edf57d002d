"""Text of requests that are not open yet, because another process opens them."""

from collections import OrderedDict
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import TypeAlias

from antiphon.contracts.prompt import Piece

RequestKey: TypeAlias = tuple[str, str]
"""The id of a stage, and that of a request at it."""

_MAX_PIECES = 4096
_MAX_ENDED = 4096
_KEEP_S = 30.0


class PendingText:
    """Keeps pieces until their request is open, a bounded number for a bounded time."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._pieces: OrderedDict[RequestKey, tuple[float, list[Piece]]] = OrderedDict()
        self._num_pieces = 0
        self._ended: OrderedDict[RequestKey, None] = OrderedDict()

    def __len__(self) -> int:
        return self._num_pieces

    def add(self, key: RequestKey, piece: Piece) -> None:
        """Keep a piece, unless its request has ended lately."""
        if key in self._ended:
            return
        now_s = self._clock()
        self._pieces.setdefault(key, (now_s + _KEEP_S, []))[1].append(piece)
        self._num_pieces += 1
        while self._num_pieces > _MAX_PIECES or self._due_s < now_s:
            self._take(next(iter(self._pieces)))

    def take(self, key: RequestKey) -> list[Piece]:
        """Return the pieces of a request, which is open from now on."""
        self._ended.pop(key, None)
        return self._take(key)

    def end(self, key: RequestKey) -> None:
        """Note that a request has ended: what comes for it is dropped."""
        self._take(key)
        self._ended[key] = None
        if len(self._ended) > _MAX_ENDED:
            self._ended.popitem(last=False)

    @property
    def _due_s(self) -> float:
        """When the oldest is dropped."""
        return next(iter(self._pieces.values()), (inf, []))[0]

    def _take(self, key: RequestKey) -> list[Piece]:
        _, pieces = self._pieces.pop(key, (0.0, []))
        self._num_pieces -= len(pieces)
        return pieces
