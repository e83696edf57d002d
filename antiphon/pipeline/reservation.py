"""Room for speech that is asked for before there is any text to speak."""

import asyncio

from antiphon.contracts.prompt import Admitted
from antiphon.contracts.types import SpeechRequest
from antiphon.errors import EngineError, OverloadedError
from antiphon.pipeline.runtime import LoadedTask
from antiphon.stages.base import StageStream
from antiphon.telemetry.metrics import Metrics


class Reservation:
    """Room for one stream at the stages of a task; ``is_taken`` from `take` to `release`."""

    def __init__(self, task: LoadedTask, request: SpeechRequest, metrics: Metrics) -> None:
        self.is_taken = False
        self._name = task.name
        self._metrics = metrics
        self._turn = asyncio.Lock()  # a stream that is being read cannot be closed
        self._is_closed = False
        self._stream: StageStream = task.reserve(request)

    async def take(self) -> None:
        """Have the stream admitted: its requests, which are ``is_later``, are not refused.

        Raises:
            OverloadedError: one stream more would cause gaps in others.
            EngineError: the model failed.
        """
        try:
            async with self._turn:
                item = await anext(self._stream)
        except OverloadedError as error:
            with self._metrics.observe(self._name):
                raise error
        if not isinstance(item, Admitted):
            raise EngineError("The model stopped before there was anything to speak.")
        self.is_taken = True

    async def release(self) -> None:
        """Free the room, unless a request has it; may be called again."""
        self.is_taken = False
        if self._is_closed:
            return
        async with self._turn:
            await self._stream.aclose()
            self._is_closed = True
