"""API keys are kept as hashes, and compared in constant time.

A key may have an owner: what is kept with it belongs to the owner, whatever key comes later. A line
is ``sha256:HEX owner=NAME``, with ``scope=admin`` for a key that may see what belongs to others.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import Scope

from antiphon.config import ServerSettings
from antiphon.contracts.types import OPERATOR, Caller
from antiphon.errors import SettingsError

_KEY_HEADERS = ("xi-api-key", "X-Vapi-Secret")
KEY_SUBPROTOCOL = "openai-insecure-api-key."
HASH_PREFIX = "sha256:"
NEW_KEY_PREFIX = "ak-"
_NUM_RANDOM_BYTES = 32
_SHOWN_HASH_CHARACTERS = 12
_NAMED = re.compile(r"\s+(\w+)=(\S*)\s*$")
_OWNER = re.compile(r"[\w.-]{1,64}", re.ASCII)


_NAME = "antiphon.caller_name"
_HOST_BITS = 64
"""One household has so many IPv6 addresses."""


class KeyRing:
    """The keys that a server accepts.

    Attributes:
        url_signing_key: secret that signs URLs; ``None``: none are signed.
    """

    def __init__(self, keys: Iterable[str], url_signing_key: str | None = None) -> None:
        """Accept these keys; ``sha256:HEX`` is the hash of one; raises SettingsError."""
        self.url_signing_key = url_signing_key
        self._callers: dict[bytes, Caller] = {}
        for line in keys:
            digest, caller = _entry(line)
            if self._callers.setdefault(digest, caller) != caller:
                raise SettingsError("server.api_keys: one key is there twice, with two owners.")

    @classmethod
    def of(cls, settings: ServerSettings) -> "KeyRing":
        """Accept what the settings name, and what is in their file; raises SettingsError."""
        file = settings.api_keys_file
        keys = [*settings.api_keys, *(() if file is None else _read(file))]
        return cls(keys, settings.url_signing_key)

    def __bool__(self) -> bool:
        """Whether a key is asked for."""
        return bool(self._callers)

    def owner(self, headers: Headers) -> str | None:
        """Return a name for the key that a request has brought, ``None`` if it is not accepted.

        The name is its owner's, or else the beginning of the key's hash: it may be shown.
        """
        found = self._found(headers)
        if found is None:
            return None
        return self._callers[found].owner or _id(found)

    def id(self, headers: Headers) -> str | None:
        """Return the beginning of the hash of an accepted key, which may be shown."""
        found = self._found(headers)
        return None if found is None else _id(found)

    def with_id(self, id: str) -> Caller | None:
        """Return the caller whose key has this id, ``None`` if there is no such key any more."""
        return {_id(digest): caller for digest, caller in self._callers.items()}.get(id)

    def caller(self, headers: Headers) -> Caller:
        """Return the caller of a request, without rights if its key is not accepted."""
        if not self:
            return OPERATOR
        found = self._found(headers)
        return Caller() if found is None else self._callers[found]

    def _found(self, headers: Headers) -> bytes | None:
        given = hashlib.sha256(given_key(headers).encode("latin-1")).digest()
        # All are compared, each in constant time.
        found = [each for each in self._callers if hmac.compare_digest(given, each)]
        return found[0] if found else None

    def admits(self, headers: Headers) -> bool:
        """Whether a request has brought a key, or there is none to be asked for."""
        return not self or self.owner(headers) is not None


def _id(digest: bytes) -> str:
    return digest.hex()[:_SHOWN_HASH_CHARACTERS]


def given_key(headers: Headers) -> str:
    """Return the key in any of the places where clients put it, ``""`` if there is none.

    OpenAI's clients send ``Bearer``, Deepgram's ``Token``, ElevenLabs and Vapi have headers of
    their own; a page's WebSocket can send nothing but subprotocols.
    """
    scheme, _, given = headers.get("Authorization", "").partition(" ")
    if scheme.lower() in ("bearer", "token"):
        return given.strip()
    for name in _KEY_HEADERS:
        if name in headers:
            return headers[name].strip()
    offered = [each.strip() for each in headers.get("Sec-WebSocket-Protocol", "").split(",")]
    if offered[0] == "token":
        return "".join(offered[1:2])
    keys = [each for each in offered if each.startswith(KEY_SUBPROTOCOL)]
    return "".join(keys[:1]).removeprefix(KEY_SUBPROTOCOL)


def new_key() -> str:
    """Return a fresh random key."""
    return NEW_KEY_PREFIX + secrets.token_urlsafe(_NUM_RANDOM_BYTES)


def hashed(key: str) -> str:
    """Return what stands for ``key`` in settings and files."""
    return HASH_PREFIX + hashlib.sha256(key.encode()).hexdigest()


def _entry(line: str) -> tuple[bytes, Caller]:
    """Read a key, or its hash, and what follows it; what is wrong is not repeated."""
    key, found = line, dict[str, str]()
    while (named := _NAMED.search(key)) is not None:  # a key may have spaces in it
        key, found[named[1]] = key[: named.start()], named[2]
    owner, scope = found.pop("owner", None), found.pop("scope", None)
    is_parted = key.startswith(HASH_PREFIX) and len(key.split()) > 1
    if found or is_parted or scope not in (None, "admin"):
        raise SettingsError(
            "server.api_keys: a key is followed by owner=NAME, scope=admin or both."
        )
    if owner is not None and not _OWNER.fullmatch(owner):
        raise SettingsError(
            "server.api_keys: an owner's name is up to 64 ASCII letters, digits, '.', '_' and '-'."
        )
    return _digest(key), Caller(owner, is_admin=scope == "admin")


def _digest(key: str) -> bytes:
    if not key.startswith(HASH_PREFIX):
        return hashlib.sha256(key.encode()).digest()
    digits = key.removeprefix(HASH_PREFIX)
    if not re.fullmatch(r"[0-9a-fA-F]{64}", digits):
        raise SettingsError("server.api_keys: after 'sha256:' there must be 64 hexadecimal digits.")
    return bytes.fromhex(digits)


def _read(file: Path) -> list[str]:
    try:
        lines = file.expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise SettingsError(f"server.api_keys_file: {error}") from error
    keys = [key for line in lines if (key := line.partition("#")[0].strip())]
    if not keys:  # an empty file must not disable authentication
        raise SettingsError(f"server.api_keys_file: {file} has no key.")
    return keys


def caller_of(scope: Scope, keys: KeyRing) -> str:
    """Return whose a request is: a key's, or else an address's; found out once a request."""
    if _NAME not in scope:
        owner = keys.owner(Headers(scope=scope)) if keys else None
        scope[_NAME] = f"key {owner}" if owner else f"address {address_of(scope)}"
    name: str = scope[_NAME]
    return name


def address_of(scope: Scope) -> str:
    """Return a key for a connection's address."""
    client = scope.get("client")
    return address_key(client[0] if client else "")


@lru_cache(1024)
def address_key(host: str) -> str:
    """Return what stands for an address, and for all that one household has of IPv6."""
    try:
        address = ip_address(host)
    except ValueError:
        return "unknown"
    if isinstance(address, IPv6Address):
        return str(IPv6Address(int(address) >> _HOST_BITS << _HOST_BITS))
    return str(address)
