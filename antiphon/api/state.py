"""All that a running server holds, in one place."""

import asyncio
from dataclasses import dataclass

from antiphon.concurrency import Workers
from antiphon.config import Settings
from antiphon.pipeline.speech import Speech
from antiphon.voices.recordings import Recordings


@dataclass(frozen=True, slots=True)
class ServerState:
    """Made when the server starts, closed when it stops; nothing of it is global.

    Attributes:
        encoders: threads that all encoding runs in.
        recordings: makes samples of the recordings that requests bring.
        warm_up: ends when the models are warm.
        created_s: Unix time at which the models were loaded.
    """

    settings: Settings
    speech: Speech
    encoders: Workers
    recordings: Recordings
    warm_up: "asyncio.Task[None]"
    created_s: int

    @property
    def is_ready(self) -> bool:
        """Whether the models are warm and none has failed."""
        if not self.warm_up.done() or self.warm_up.cancelled():
            return False
        return self.warm_up.exception() is None and not self.failures

    @property
    def failures(self) -> list[str]:
        """What broke, one entry a model that cannot speak any more."""
        failures = (model.failure for model in self.speech.models.values())
        return [failure for failure in failures if failure is not None]
