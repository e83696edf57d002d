"""Work and progress of an engine's requests, for tests that make its turns themselves."""

from antiphon.engine.core import EngineCore
from antiphon.engine.scheduler import Scheduler


def has_work(core: EngineCore) -> bool:
    return bool(core._in_flight) or core.scheduler.has_work


def read_frames(scheduler: Scheduler, request_id: str, num_frames: int = 1) -> None:
    """Record that a request's consumer has read frames, or audio of as many."""
    if (request := scheduler._by_id.get(request_id)) is not None:
        request.read(num_frames)
