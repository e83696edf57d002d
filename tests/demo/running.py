"""A demonstration in a process of its own: Gradio leaves event loops open, which tests forbid."""

import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager

from tests.servers import wait_until

HOST = "127.0.0.1"


@contextmanager
def running_demo(server_url: str, api_key: str) -> Generator[str, None, None]:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "antiphon", "demo", "--url", server_url]
    command += ["--api-key", api_key, "--port", str(port)]
    url = f"http://{HOST}:{port}"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: process.poll() is not None or answers(url))
        assert process.poll() is None, "it has ended"
        yield url
    finally:
        process.terminate()
        process.wait(30)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except urllib.error.URLError:
        return False
