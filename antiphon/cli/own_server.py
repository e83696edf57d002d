"""A server of our own to be measured, in a process of its own, on a free port."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from antiphon.config.sources import process_environment
from antiphon.errors import ModelLoadError

HOST = "127.0.0.1"
_STOP_TIMEOUT_S = 30.0
_SECONDS_BETWEEN_LOOKS = 0.1


@contextmanager
def own_server(
    arguments: Sequence[str], *, api_key: str | None = None, timeout_s: float = 900.0
) -> Iterator[str]:
    """Run ``antiphon serve`` until the block ends; yield its URL once its models are warm.

    Args:
        arguments: the model and further flags; the address is chosen here.

    Raises:
        ModelLoadError: The server ended, or was not ready in time.
    """
    port = _free_port()
    command = [sys.executable, "-m", "antiphon", "serve", *arguments]
    command += ["--host", HOST, "--port", str(port), "--log-level", "warning"]
    # Not as an argument: everybody on the machine can read those of a process.
    key = {} if api_key is None else {"ANTIPHON_SERVER_API_KEYS": api_key}
    environment = process_environment(key)
    # In this process group: a signal to the group also ends the server.
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    url = f"http://{HOST}:{port}"
    try:
        with _ends_as_exceptions():
            _wait_until_ready(url, process, time.monotonic() + timeout_s)
            yield url
    finally:
        _stop(process)


@contextmanager
def _ends_as_exceptions() -> Iterator[None]:
    """Have signals that end this process unwind it: its server would stay otherwise."""
    signals = [signal.SIGTERM] + ([signal.SIGHUP] if os.name == "posix" else [])

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, end) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/ready", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _wait_until_ready(url: str, process: "subprocess.Popen[bytes]", deadline_s: float) -> None:
    while not is_ready(url):
        if process.poll() is not None:
            raise ModelLoadError(f"The server ended with status {process.returncode}.")
        if time.monotonic() > deadline_s:
            raise ModelLoadError("The server was not ready in time.")
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
