"""Callers: the owner of a key, or an address where no valid key was given."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from starlette.datastructures import Headers
from starlette.types import Scope

from antiphon.api.middleware.keys import KeyRing

_NAME = "antiphon.caller_name"
_HOST_BITS = 64
"""One household has so many IPv6 addresses."""


def caller_of(scope: Scope, keys: KeyRing) -> str:
    """Return whose a request is: a key's, or else an address's; found out once a request."""
    if _NAME not in scope:
        owner = keys.owner(Headers(scope=scope))
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
