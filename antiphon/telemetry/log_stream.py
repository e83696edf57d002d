"""A stream for logs that is written in a thread: a reader that stalls blocks nothing.

A pipe without a reader is full after 64 KiB. A process that writes to it then blocks, and its event
loop with it, and all that it serves; so does a terminal whose output was stopped.
"""

import atexit
import logging
import os
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TextIO

MAX_WAITING_CHARACTERS = 4 * 2**20
"""Of lines that are still to be written; further ones are dropped, and counted."""
_DRAIN_S = 2.0
_TRY_AGAIN_S = 0.05


class LogStream:
    """What is written to it reaches a stream in order; the end of the process waits for a moment.

    It writes to the stream's file, past its buffer: a thread that waits with the buffer's lock
    would keep the interpreter from ending.
    """

    def __init__(self, stream: TextIO, max_characters: int = MAX_WAITING_CHARACTERS) -> None:
        """Begin with nothing to write; ``max_characters`` may wait for the stream."""
        self._stream = stream
        self._max_characters = max_characters
        self._lines: deque[str] = deque()
        self._num_characters = 0
        self._num_dropped = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        atexit.register(self.drain)

    def write(self, line: str) -> None:
        """Have a line written; never waits."""
        with self._changed:
            if self._num_characters + len(line) > self._max_characters:
                self._num_dropped += 1
                return
            self._lines.append(line)
            self._num_characters += len(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self) -> None:
        """Do nothing: handlers call it after each line; see `drain`."""

    def drain(self, longest_s: float = _DRAIN_S) -> bool:
        """Wait until all is written; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._num_characters, longest_s)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                line = self._lines.popleft()
            self._put(line)
            with self._changed:
                self._num_characters -= len(line)
                num_dropped, self._num_dropped = self._num_dropped, 0
                self._changed.notify_all()
            if num_dropped:
                logging.getLogger(__name__).warning("%d events could not be logged", num_dropped)

    def _put(self, line: str) -> None:
        """Write a line, however long that takes."""
        if self._stream.closed:  # the reader is gone
            return
        try:
            number = self._stream.fileno()
        except OSError:  # it has no file
            with suppress(ValueError):  # it has been closed since
                self._stream.write(line)
                self._stream.flush()
            return
        except ValueError:  # the stream was closed meanwhile
            return
        raw = line.encode(errors="backslashreplace")
        while raw:
            try:
                raw = raw[os.write(number, raw) :]
            except BlockingIOError:  # another process has made the pipe non-blocking
                time.sleep(_TRY_AGAIN_S)
            except OSError:  # its reader has gone
                return
