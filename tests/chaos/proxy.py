"""A network that does what a test wants: cuts, stalls and half-closed connections."""

import select
import socket
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_RESET = struct.pack("ii", 1, 0)
_PATIENCE_S = 0.02


@dataclass
class Faults:
    """What goes wrong between a client and a server.

    Attributes:
        cut_after_bytes: of the answer; then both sides are reset. ``None``: never.
        half_closes: tells the server that no more comes as soon as the request has passed.
        is_stalled: set while nothing of the answer passes.
        num_passed: bytes of the answer that have passed.
    """

    cut_after_bytes: int | None = None
    half_closes: bool = False
    is_stalled: threading.Event = field(default_factory=threading.Event)
    num_passed: int = 0


@contextmanager
def proxy(target_port: int, faults: Faults) -> Generator[int, None, None]:
    """Pass connections on to a port of the loopback; gives the port to connect to."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(_PATIENCE_S)
    is_over = threading.Event()
    threads: list[threading.Thread] = []

    def accept() -> None:
        while not is_over.is_set():
            with suppress(TimeoutError):
                client, _ = listener.accept()
                threads.append(
                    threading.Thread(target=_pass_on, args=(client, target_port, faults, is_over))
                )
                threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        is_over.set()
        accepting.join()
        for thread in threads:
            thread.join()
        listener.close()


def _pass_on(
    client: socket.socket, target_port: int, faults: Faults, is_over: threading.Event
) -> None:
    server = socket.create_connection(("127.0.0.1", target_port))
    with client, server, suppress(ConnectionError):
        while not is_over.is_set():
            wanted = [client] if faults.is_stalled.is_set() else [client, server]
            ready, _, _ = select.select(wanted, [], [], _PATIENCE_S)
            if client in ready:
                if not (sent := client.recv(65536)):
                    return
                server.sendall(sent)
                if faults.half_closes:
                    server.shutdown(socket.SHUT_WR)
            if server in ready:
                left = (faults.cut_after_bytes or faults.num_passed + 65536) - faults.num_passed
                answer = server.recv(min(left, 65536)) if left else b""
                client.sendall(answer)
                faults.num_passed += len(answer)
                if not answer or faults.num_passed == faults.cut_after_bytes:
                    break
        for side in (client, server):
            side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
