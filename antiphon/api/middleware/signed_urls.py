"""Signed URLs: a GET request for speech that needs no key in a header, until it expires.

Players, such as an ``<audio>`` element or a loudspeaker, send no headers of ours. The signature is
an HMAC-SHA256 over all other parameters, with a secret of the server. One of them is the id of the
key that the URL was made with: it speaks for the owner of that key, and no longer than the key.
"""

import hashlib
import hmac
import time
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

from starlette.types import Scope

from antiphon.api.middleware.connection_limits import SPEECH_PATH
from antiphon.api.middleware.keys import KeyRing
from antiphon.contracts.types import Caller
from antiphon.errors import AuthenticationError

KEY, EXPIRES, SIGNATURE = SIGNING_PARAMETERS = ("key_id", "expires", "signature")
_READING = ("GET", "HEAD")


def signed_query(fields: Mapping[str, str], key_id: str, expires_s: int, secret: str) -> str:
    """Return the query of a signed URL.

    Args:
        key_id: id of the key that it speaks for.
        expires_s: Unix time at which it expires, in seconds.
        secret: the setting server.url_signing_key.
    """
    pairs = [*fields.items(), (KEY, key_id), (EXPIRES, str(expires_s))]
    return urlencode([*pairs, (SIGNATURE, _signature(pairs, secret))])


def reads_speech(scope: Scope) -> bool:
    """Return whether a request is GET or HEAD for speech."""
    is_read = scope["type"] == "http" and scope["method"] in _READING
    return is_read and bool(scope["path"] == SPEECH_PATH)


def is_signed(scope: Scope) -> bool:
    """Return whether a request reads speech from a URL with a signature, right or wrong."""
    return reads_speech(scope) and f"{SIGNATURE}=".encode() in scope["query_string"]


def signer(scope: Scope, keys: KeyRing) -> Caller | None:
    """Return the caller that a signed URL speaks for, ``None`` if its signature is wrong.

    Raises:
        AuthenticationError: it was right, and has expired; or the server has no signing key.
    """
    if keys.url_signing_key is None:
        raise AuthenticationError(
            "This server accepts no signed URLs: server.url_signing_key is unset."
        )
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    found = dict(pairs)
    signed = [pair for pair in pairs if pair[0] != SIGNATURE]
    given = found.get(SIGNATURE, "").encode()
    caller = keys.with_id(found.get(KEY, ""))
    if not hmac.compare_digest(given, _signature(signed, keys.url_signing_key).encode()):
        return None
    if caller is not None and int(found[EXPIRES]) <= time.time():
        raise AuthenticationError("The URL has expired: make another one.")
    return caller


def _signature(pairs: list[tuple[str, str]], secret: str) -> str:
    """Sign parameters in any order."""
    message = urlencode(sorted(pairs)).encode()
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()
