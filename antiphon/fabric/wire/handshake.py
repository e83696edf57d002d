"""Mutual authentication of two processes by the cluster's token, which is never sent.

Each side sends a random number, then a keyed hash (HMAC-SHA256) of both numbers; the client proves
itself first. Generators of steps, which can be tested without a connection.
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
    """The peer is no process of this cluster; the message is the reason."""


@dataclass(frozen=True, slots=True)
class HandshakeStep:
    """Next step of one side.

    Attributes:
        num_bytes: number of bytes to wait for; 0: the handshake is complete.
    """

    send: bytes
    num_bytes: int


Handshake: TypeAlias = Generator[HandshakeStep, bytes, None]
"""Receives the bytes that the step before waits for; raises HandshakeError."""


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
