"""Stream of a request over replicas that may be lost: its consumer gets one stream without a gap.

Before the first item a request is opened at another replica; afterwards another replica prefills
the frames and the text so far, and resumes. No item is delivered twice.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass, replace

from antiphon.contracts.prompt import Piece
from antiphon.contracts.types import Ended
from antiphon.errors import EngineFailedError, OverloadedError, ReplicaLostError, UnavailableError
from antiphon.fabric.replicas.balancer import affinity_key
from antiphon.fabric.replicas.group import ReplicaGroup
from antiphon.fabric.replicas.link import ReplicaLimits, ReplicaLink
from antiphon.fabric.replicas.resume_log import ResumeLog
from antiphon.fabric.wire.stage_client import StageConnection, remote_handle
from antiphon.stages.base import StageHandle, StageItem, StageRequest, StageStream

logger = logging.getLogger(__name__)

_RETRY_AFTER_S = 2.0


@dataclass(frozen=True, slots=True)
class _Place:
    group: ReplicaGroup
    link: ReplicaLink
    connection: StageConnection

    @property
    def id(self) -> str:
        return self.link.replica.id


@dataclass(slots=True)
class _Attempt:
    """A request at one replica of each stage, first to last; the last one is pulled."""

    request: StageRequest
    places: tuple[_Place, ...]
    has_item: bool = False

    def open(self) -> StageStream:
        *before, last = self.places
        upstream = tuple(
            remote_handle(each.link.replica.address, each.link.replica.stage) for each in before
        )
        sent = replace(self.request, upstream=upstream)
        return last.connection.open(last.link.replica.stage, sent)

    def append(self, number: int, piece: Piece) -> None:
        place = self.places[number]
        place.connection.append(place.link.replica.stage, self.request.id, piece)

    def abort(self, number: int) -> None:
        place = self.places[number]
        place.connection.abort(place.link.replica.stage, self.request.id)

    @property
    def lost(self) -> Sequence[_Place]:
        """Replicas that may have caused the loss of the stream."""
        gone = [
            each
            for each in self.places
            if each.connection.lost is not None or each.link.status.failure is not None
        ]
        return gone or self.places[:1]  # other stages reach it, this process may not


class ResilientStream:
    """A request's stream; text may be appended, and it may be aborted, at any moment.

    Attributes:
        num_retries: number of replicas that failed before its first item.
        num_migrations: number of replicas that have resumed it.
    """

    def __init__(
        self,
        request: StageRequest,
        stages: Sequence[tuple[StageHandle, ReplicaGroup]],
        limits: ReplicaLimits,
    ) -> None:
        """Prepare a stream through stages, first to last."""
        self.num_retries = self.num_migrations = 0
        self.request = request
        self._handles = tuple(handle for handle, _ in stages)
        self._groups = tuple(group for _, group in stages)
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._log = ResumeLog(replace(request, upstream=()), self._loop.time)
        self._key = affinity_key(request.prompt)
        self._pieces: list[Piece] = [*request.pieces]
        self._attempt: _Attempt | None = None
        self._avoid: set[str] = set()
        self._refusal: OverloadedError | None = None
        self._num_losses = 0
        self._is_aborted = False

    async def items(
        self, tracked: Callable[["ResilientStream"], AbstractContextManager[None]]
    ) -> AsyncGenerator[StageItem, None]:
        """Yield the items of the last stage, each once; see `Fabric.open`.

        Args:
            tracked: returns the context in which the stream is open.

        Raises:
            OverloadedError: all replicas have refused it.
            UnavailableError: no replica was available in time.
            AntiphonError: error of the stage that the request has caused.
        """
        request = self._log.request
        with tracked(self):
            while (attempt := await self._begin(request)) is not None:
                try:
                    async with aclosing(attempt.open()) as items:
                        async for item in items:
                            reason = item.reason if isinstance(item, Ended) else None
                            if reason == "abort" and not self._is_aborted:
                                break  # its process is stopping
                            if (new := self._take(attempt, item)) is not None:
                                yield new
                            if reason is not None:
                                return
                    self._on_loss(attempt, ReplicaLostError("its stream was ended by its process"))
                except OverloadedError as error:
                    self._on_refusal(attempt, error)
                    # Another id: text for this one may still be in flight to its first stage.
                    request = replace(request, id=f"{request.id}~")
                    continue
                except (ReplicaLostError, EngineFailedError) as error:
                    self._on_loss(attempt, error)
                finally:
                    self._end(attempt)
                request = self._log.resumed()
            yield Ended("abort")

    def append(self, handle: StageHandle, piece: Piece) -> None:
        """Append text at the first stage, which alone reads text."""
        assert handle == self._handles[0], "text is read by the first stage"
        self._pieces.append(piece)
        if self._attempt is not None:
            self._attempt.append(0, piece)

    def abort(self, handle: StageHandle) -> None:
        """End the stream by `Ended` with the reason "abort"."""
        self._is_aborted = True
        if self._attempt is not None:
            self._attempt.abort(self._handles.index(handle))
        for group in self._groups:
            group.wake()

    def _take(self, attempt: _Attempt, item: StageItem) -> StageItem | None:
        """Return what is new of an item of an attempt; ``None``: nothing."""
        if not attempt.has_item:
            attempt.has_item = True
            for place in attempt.places:
                place.group.balancer.succeed(place.id)
        new = self._log.take(item)
        if new is not None:
            self._num_losses = 0
        return new

    async def _begin(self, request: StageRequest) -> _Attempt | None:
        """Choose replicas; ``None``: the request was aborted.

        Raises:
            OverloadedError: all replicas have refused it.
            UnavailableError: none was available in time.
        """
        ends_s = self._loop.time() + self._limits.wait_s
        links: list[ReplicaLink | None] = [None]
        while not self._is_aborted:
            links = [group.choose(key=self._key, avoid=self._avoid) for group in self._groups]
            places = tuple(
                _Place(group, link, link.connection)
                for group, link in zip(self._groups, links, strict=True)
                if link is not None and link.connection is not None
            )
            if len(places) == len(links):
                sent = replace(request, pieces=tuple(self._pieces), returns_frames=True)
                self._attempt = _Attempt(sent, places)
                for place in places:
                    place.group.balancer.begin(place.id)
                return self._attempt
            missing = self._groups[links.index(None)]
            self._check_refused(missing)
            left_s = ends_s - self._loop.time()
            if left_s <= 0 or missing.is_closed:
                raise UnavailableError(
                    "No replica of the model can be reached.", retry_after_s=_RETRY_AFTER_S
                )
            await missing.wait(left_s)
        return None

    def _check_refused(self, group: ReplicaGroup) -> None:
        """Raise the refusal if all replicas have refused the request."""
        if self._refusal is not None and self._avoid.issuperset(group.reachable):
            raise self._refusal

    def _end(self, attempt: _Attempt) -> None:
        self._attempt = None
        for place in attempt.places:
            place.group.balancer.end(place.id)

    def _on_refusal(self, attempt: _Attempt, error: OverloadedError) -> None:
        fullest = min(attempt.places, key=lambda each: each.group.balancer.slack(each.id))
        self._avoid.add(fullest.id)
        former = self._refusal
        if former is None or (error.retry_after_s or 0.0) < (former.retry_after_s or 0.0):
            self._refusal = error

    def _on_loss(self, attempt: _Attempt, error: ReplicaLostError | EngineFailedError) -> None:
        """Leave out the lost replica; the request moves to another.

        Raises:
            ReplicaLostError, EngineFailedError: the request has lost too many replicas.
        """
        self._num_losses += 1
        for place in attempt.lost:
            place.group.lose(place.id)
        if self._log.has_begun:
            self.num_migrations += 1
        else:
            self.num_retries += 1
        logger.info("request %s moves to another replica: %s", self.request.id, error)
        if self._num_losses >= self._limits.max_losses:
            raise error
