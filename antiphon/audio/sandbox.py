"""Decodes untrusted files, each in a process of its own without rights.

A file of 500 bytes can make a demuxer allocate gigabytes (tables whose length is declared, not
stored; compressed headers), and parsers in C have bugs. So whatever comes over the network is
decoded by a child that has little memory, little time and no way to open anything. The worst
that a file can do is to end its own child.
"""

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np

from antiphon.audio.decode import decode_audio, refusal
from antiphon.audio.seccomp import restrict_to_computing
from antiphon.audio.wav import pcm16, wav_header
from antiphon.errors import EngineError, InvalidRequestError
from antiphon.types import Samples

_MAX_CPU_S = 10
_MAX_WAIT_S = 30.0  # longer than the CPU time, for machines that are busy
_READY, _DONE, _REFUSED = b"!", b"+", b"-"
# -I: neither the environment nor the working directory choose what the child imports; we do.
_CHILD = "import sys; sys.path[:] = sys.argv[2:]; from antiphon.audio import sandbox as s; s.main()"


class DecodeSandbox:
    """Decodes files in children, one each; safe for several threads at once.

    After its first file it keeps one child waiting for the next, so that later files do not pay
    for the start of a process (which idles with about 45 MB).
    """

    def __init__(self, *, max_memory_bytes: int = 512 * 1024 * 1024) -> None:
        """Limit what a child may allocate for one file to ``max_memory_bytes``, where we can."""
        self._max_memory_bytes = max_memory_bytes
        self._lock = threading.Lock()
        self._spare: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def decode(
        self,
        data: bytes,
        *,
        sample_rate_hz: int,
        max_duration_s: float,
        min_duration_s: float = 0.0,
    ) -> Samples:
        """Do what `decode_audio` does; blocks, so it belongs in a worker thread.

        Raises:
            InvalidRequestError: as from `decode_audio`, or the file would take too much memory
                or time.
            EngineError: the child did not even start.
        """
        limits = {
            "sample_rate_hz": sample_rate_hz,
            "max_duration_s": max_duration_s,
            "min_duration_s": min_duration_s,
        }
        try:
            child = self._take_child()
        except OSError as error:
            raise EngineError("No process could be started to decode audio.") from error
        try:
            answer = _asked(child, json.dumps(limits).encode() + b"\n" + data)
        finally:
            self._restock()
        started, kind, content = answer[:1], answer[1:2], answer[2:]
        if started != _READY:
            raise EngineError("The process that decodes audio failed to start.")
        if kind == _DONE and child.returncode == 0:
            return np.frombuffer(content, np.float32).copy()
        if kind == _REFUSED:
            raise InvalidRequestError(content.decode(), param="ref_audio")
        raise refusal("it is damaged, or needs too much memory or time")

    def close(self) -> None:
        """End the waiting child; files under way are decoded to their end."""
        with self._lock:
            self._is_closed = True
            spare, self._spare = self._spare, None
        if spare is not None:
            _end(spare)

    def _take_child(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None and spare.poll() is None:
            return spare
        if spare is not None:  # it was killed
            _end(spare)
        return self._started()

    def _restock(self) -> None:
        with self._lock, suppress(OSError):
            if self._spare is None and not self._is_closed:
                self._spare = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-I", "-c", _CHILD, str(self._max_memory_bytes), *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0 if sys.platform != "win32" else None,  # Ctrl-C is for the server
        )


def _asked(child: "subprocess.Popen[bytes]", question: bytes) -> bytes:
    """Return all that the child says; afterwards it is gone."""
    try:
        return child.communicate(question, timeout=_MAX_WAIT_S)[0]
    except subprocess.TimeoutExpired:
        raise refusal("it takes too much time") from None
    finally:
        _end(child)


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.kill()
    with child:  # closes its pipes and waits for it
        pass


def main() -> None:
    """Be the child: read limits and a file, write samples or the reason why there are none."""
    max_memory_bytes = int(sys.argv[1])
    _import_everything()
    _give_up_rights(max_memory_bytes)
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    try:
        limits = json.loads(sys.stdin.buffer.readline())
        samples = decode_audio(sys.stdin.buffer.read(), **limits)
    except InvalidRequestError as error:
        sys.stdout.buffer.write(_REFUSED + error.message.encode())
    except MemoryError:
        sys.exit(1)
    else:
        sys.stdout.buffer.write(_DONE + samples.tobytes())
    sys.stdout.buffer.flush()
    os._exit(0)  # at once: there is nothing to tidy up, and the caller waits


def _import_everything() -> None:
    """Decode a little, so that whatever is imported on first use has been, before rights go."""
    silence = np.zeros(800, np.float32)
    wav = wav_header(8_000, len(silence)) + pcm16(silence)
    decode_audio(wav, sample_rate_hz=16_000, max_duration_s=1.0)
    try:
        decode_audio(b"?", sample_rate_hz=16_000, max_duration_s=1.0)
    except InvalidRequestError:
        return


def _give_up_rights(max_memory_bytes: int) -> None:
    """Bound memory and CPU time, and open nothing any more: no file, no socket, no process."""
    if sys.platform == "win32":
        return
    import resource

    limits = {
        resource.RLIMIT_CPU: _MAX_CPU_S,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
    }
    if sys.platform == "linux":  # elsewhere it is unknown how much is mapped already
        mapped_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limits[resource.RLIMIT_AS] = mapped_pages * resource.getpagesize() + max_memory_bytes
    limits[resource.RLIMIT_NOFILE] = 0
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))
    restrict_to_computing()
