"""A denoiser in several processes of one host, each with a GPU, that compute each step together.

All ranks load the same components and receive the same calls in the same order. Within a step they
communicate through `RankMesh` and the networks. The process that drives them computes nothing, so a
rank that dies does not end the server.
"""

import logging
import multiprocessing
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from antiphon.contracts.family import LoadContext, Ref
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.diffusion.protocol import DenoisingWork
from antiphon.diffusion.rank import RankPlan, run_rank
from antiphon.errors import AntiphonError, EngineFailedError, ModelLoadError

logger = logging.getLogger(__name__)

_STRAGGLER_S = 5.0  # after the first failure, until ranks that do not reply are given up
_STOP_S = 10.0


@dataclass(slots=True, weakref_slot=True, eq=False)
class RankedState:
    """A request whose states the ranks hold, until this object is gone."""

    number: int


class ParallelDenoiser:
    """A `Denoiser` whose calls are carried out by all ranks.

    If ranks disagree, or one of them dies, the denoiser is broken for good.
    """

    def __init__(self, factory: Ref, context: LoadContext) -> None:
        """Start the ranks and wait until all have loaded.

        Args:
            factory: factory of each rank's denoiser.
            context: load context; its device is that of the first rank, the others use the next
                ones.

        Raises:
            ModelLoadError: a rank could not start.
            AntiphonError: The factory has raised it.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="antiphon-ranks-")
        self._lock = threading.Lock()
        self._work_lock = threading.Lock()
        self._num_begun = 0
        self._failure: str | None = None
        spawning = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        self._works, works = spawning.Pipe()
        num_ranks = context.diffusion.num_processes
        for rank in range(num_ranks):
            ours, theirs = spawning.Pipe()
            meeting = Path(self._folder.name) / "ranks"
            plan = RankPlan(rank, num_ranks, str(meeting), factory, replace(context, progress=None))
            process = spawning.Process(
                target=run_rank,
                args=(plan, theirs, works if rank == 0 else None),
                name=f"rank {rank}",
                daemon=True,
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        works.close()
        try:
            self._max_batch: int = self._replies()
        except EngineFailedError as error:
            self._stop()
            raise ModelLoadError(str(error)) from error
        except AntiphonError:
            self._stop()
            raise

    @property
    def max_batch(self) -> int:
        """Most requests that are worth stepping together."""
        return self._max_batch

    def work(self, prompt: Prompt) -> DenoisingWork:
        """Return the first rank's estimate of a prompt's work; it answers within a step too."""
        with self._work_lock:
            try:
                self._works.send(prompt)
                work: DenoisingWork = self._works.recv()
            except (OSError, EOFError) as error:
                raise self._broken("the first rank has ended") from error
        return work

    def begin(self, prompt: Prompt, conditioning: Latents | None) -> RankedState:
        state = RankedState(self._num_begun)
        self._num_begun += 1
        self._call("begin", state.number, prompt, conditioning)
        weakref.finalize(state, self._drop, state.number).atexit = False
        return state

    def step(self, states: Sequence[RankedState]) -> None:
        self._call("step", [state.number for state in states])

    def preview(self, state: RankedState) -> Latents:
        """Return the first rank's estimate."""
        latents: Latents = self._call("preview", state.number)
        return latents

    def finish(self, state: RankedState) -> Latents:
        """Return the first rank's final latents."""
        latents: Latents = self._call("finish", state.number)
        return latents

    def close(self) -> None:
        self._stop()

    def _drop(self, number: int) -> None:
        if self._failure is None:
            self._tell("drop", number)

    def _call(self, method: str, *arguments: Any) -> Any:
        """Run a call on all ranks; return the result of the first one.

        Raises:
            EngineFailedError: they are broken for good.
            AntiphonError: all have refused it.
        """
        if self._failure is not None:
            raise EngineFailedError(self._failure)
        self._tell(method, *arguments)
        return self._replies()

    def _tell(self, method: str, *arguments: Any) -> None:
        with self._lock:  # so that all ranks receive calls in the same order
            for pipe in self._pipes:
                try:
                    pipe.send((method, arguments))
                except OSError:  # the rank has ended, which its missing reply reports
                    logger.debug("a rank has ended already: no message is sent to it")

    def _replies(self) -> Any:
        waited: dict[Any, int] = {pipe: rank for rank, pipe in enumerate(self._pipes)}
        values: dict[int, Any] = {}
        errors: dict[int, AntiphonError] = {}
        ends_s: float | None = None
        while waited:
            left_s = None if ends_s is None else max(ends_s - time.monotonic(), 0.0)
            ready = wait([*waited], left_s)
            if not ready:
                raise self._broken(f"rank {min(errors)} has failed: {errors[min(errors)]}")
            for pipe in ready:
                rank = waited.pop(pipe)
                try:
                    value, error = self._pipes[rank].recv()
                except (OSError, EOFError) as lost:
                    raise self._broken(f"rank {rank} has ended") from lost
                if error is None:
                    values[rank] = value
                else:
                    errors[rank] = error
                    ends_s = ends_s or time.monotonic() + _STRAGGLER_S
        if not errors:
            return values[0]
        if values:
            raise self._broken(f"rank {min(errors)} has failed: {errors[min(errors)]}")
        raise errors[0]

    def _broken(self, reason: str) -> EngineFailedError:
        self._failure = f"The denoiser's processes have failed: {reason}."
        for process in self._processes:
            process.kill()
        return EngineFailedError(self._failure)

    def _stop(self) -> None:
        self._tell("close")
        self._failure = self._failure or "The denoiser has been closed."
        ends_s = time.monotonic() + _STOP_S
        for process in self._processes:
            process.join(max(ends_s - time.monotonic(), 0.0))
            process.kill()
            process.join()
        for pipe in (*self._pipes, self._works):
            pipe.close()
        self._folder.cleanup()
