"""Leases of jobs: a file lock that ends with its process, and heartbeats in the job's row.

No clock is shared. A runner holds a lock on a file of its own, which the system takes from it when
its process dies. Besides, it counts up a number in the job's row; a reader that
sees the same number for `LEASE_S` of its own monotonic clock takes the lease for expired.
"""

import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: heartbeats alone must do
    _HAS_LOCKS = False
else:
    _HAS_LOCKS = True

LEASE_S = 30.0
"""A job whose heart has not beaten for so long is taken over."""

Clock = Callable[[], float]


class LeaseHolder:
    """The identity of a job runner, and the lock that it holds while it lives."""

    def __init__(self, folder: Path) -> None:
        """Choose a name; nothing is written before `live`."""
        self.name = secrets.token_hex(8)
        self._path = folder / self.name
        self._descriptor: int | None = None

    def live(self) -> None:
        """Hold the lock from now on; if it cannot be had, the heartbeats alone must do."""
        if not _HAS_LOCKS or self._descriptor is not None:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                raise
            self._descriptor = descriptor

    def end(self) -> None:
        """Let go of the lock; may be called again."""
        if self._descriptor is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None


class Leases:
    """What one process has seen of the runners of others."""

    def __init__(self, folder: Path, clock: Clock = time.monotonic) -> None:
        """Look for their locks in a folder; ``clock`` gives seconds, and never jumps."""
        self._folder = folder
        self._clock = clock
        self._seen: dict[str, tuple[tuple[str, object], float]] = {}

    def is_expired(self, job_id: str, runner: object, num_beats: object) -> bool:
        """Whether the runner of a job is dead or silent, so that the job can be acquired."""
        if not isinstance(runner, str) or self._is_dead(runner):
            return True
        now_s = self._clock()
        beat = (runner, num_beats)
        last_beat, since_s = self._seen.get(job_id, (None, now_s))
        if beat != last_beat:
            self._seen[job_id] = beat, now_s
            return False
        return now_s - since_s > LEASE_S

    def sweep(self, needed: set[str]) -> None:
        """Remove the locks of runners that have died, but for those that jobs still name."""
        with suppress(OSError):
            for name in os.listdir(self._folder):
                if name not in needed:
                    self._is_dead(name)

    def forget(self, job_ids: set[str]) -> None:
        """Forget all jobs but these."""
        for id in self._seen.keys() - job_ids:
            del self._seen[id]

    def _is_dead(self, runner: str) -> bool:
        """Whether a runner's lock is free, and then removed; one without a lock may live."""
        if not _HAS_LOCKS or not (runner.isascii() and runner.isalnum()):
            return False
        path = self._folder / runner
        try:
            descriptor = os.open(path, os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True
