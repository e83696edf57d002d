"""Asks a server for /health on new connections until its stdin ends, and then says how that went.

A process of its own, so that its times are the server's and not those of the tests around it:
``python -m tests.chaos.pinger PORT``. It prints ``STARTED``, and at its end one line of JSON; there
is always a ping between them.
"""

import json
import select
import socket
import sys
import time
from collections import Counter

PAUSE_S = 0.02
DEADLINE_S = 60.0
STARTED = "started\n"


def ping(port: int) -> str:
    """Return the answer's status, or what happened instead."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
    except OSError as error:
        return type(error).__name__
    return answer[9:12].decode("ascii", "replace")


def main() -> None:
    port, statuses, latencies_s = int(sys.argv[1]), Counter[str](), []
    sys.stdout.write(STARTED)
    sys.stdout.flush()
    is_over = False
    while not is_over:
        began_s = time.monotonic()
        statuses[ping(port)] += 1
        latencies_s.append(time.monotonic() - began_s)
        is_over = bool(select.select([sys.stdin], [], [], PAUSE_S)[0])
    worst_ms = sorted(round(1000 * each_s, 1) for each_s in latencies_s)
    p99_ms = worst_ms[int(0.99 * len(worst_ms))]
    told = {"statuses": statuses, "worst_ms": worst_ms[-1], "p99_ms": p99_ms}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
