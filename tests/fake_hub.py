"""A hub on the loopback with one repository: what the hub's package asks for, and no more."""

import hashlib
import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def fake_hub(folder: Path, repository: str, card: dict[str, Any]) -> Generator[str, None, None]:
    """Serve the files of a folder as a repository with a card; yield the address."""
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    info = {
        "id": repository,
        "sha": COMMIT,
        "private": False,
        "gated": False,
        "cardData": card,
        "siblings": [{"rfilename": name} for name in files],
    }
    tree = [
        {"type": "file", "path": name, "size": len(content), "oid": _oid(content)}
        for name, content in files.items()
    ]

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            name = path.partition(f"/{repository}/resolve/{COMMIT}/")[2]
            if path.startswith(f"/api/models/{repository}/tree/"):
                self._answer(json.dumps(tree).encode())
            elif path in (f"/api/models/{repository}", f"/api/models/{repository}/revision/main"):
                self._answer(json.dumps(info).encode())
            elif name in files:
                self._answer(files[name])
            else:
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()

        def _answer(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{_oid(content)}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *arguments: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def _oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
