"""How two processes show that both know the cluster's token, without sending it.

Each side sends a random number, then a keyed hash (HMAC-SHA256) of both numbers; the client is
the first to prove itself. Written as generators of steps, so that it needs no connection to test.
"""

import hashlib
import hmac
import secrets
from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias

_MAGIC = b"ANTIPHON-WIRE-1\n"
_NUM_RANDOM_BYTES = 32
_NUM_HELLO_BYTES = len(_MAGIC) + _NUM_RANDOM_BYTES
_NUM_PROOF_BYTES = 32


class HandshakeError(Exception):
    """The other side is no process of this cluster; the message says why."""


@dataclass(frozen=True, slots=True)
class HandshakeStep:
    """What one side does next.

    Attributes:
        send: to the other side.
        num_bytes: that are then awaited; 0: the handshake is over.
    """

    send: bytes
    num_bytes: int


Handshake: TypeAlias = Generator[HandshakeStep, bytes, None]
"""Is sent what the step before has awaited; raises HandshakeError."""


def greet(token: bytes) -> Handshake:
    """Take the client's part."""
    ours = _hello()
    theirs = yield HandshakeStep(ours, _NUM_HELLO_BYTES)
    _check_hello(theirs)
    proof = yield HandshakeStep(_proof(token, b"client", ours, theirs), _NUM_PROOF_BYTES)
    _check_proof(proof, _proof(token, b"server", ours, theirs))
    yield HandshakeStep(b"", 0)


def answer(token: bytes) -> Handshake:
    """Take the server's part."""
    theirs = yield HandshakeStep(b"", _NUM_HELLO_BYTES)
    _check_hello(theirs)
    ours = _hello()
    proof = yield HandshakeStep(ours, _NUM_PROOF_BYTES)
    _check_proof(proof, _proof(token, b"client", theirs, ours))
    yield HandshakeStep(_proof(token, b"server", theirs, ours), 0)


def _hello() -> bytes:
    return _MAGIC + secrets.token_bytes(_NUM_RANDOM_BYTES)


def _check_hello(hello: bytes) -> None:
    if not hello.startswith(_MAGIC):
        raise HandshakeError("it speaks another protocol, or another version of it")


def _proof(token: bytes, side: bytes, client_hello: bytes, server_hello: bytes) -> bytes:
    return hmac.digest(token, side + client_hello + server_hello, hashlib.sha256)


def _check_proof(given: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(given, expected):
        raise HandshakeError("it does not know the cluster's token")
