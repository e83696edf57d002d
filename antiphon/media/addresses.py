"""Addresses that the server may fetch from: public ones, and those the operator allows.

The check sits where connections are made. A name is resolved once, all its addresses are
checked, and the connection goes to an address from that very answer: how a URL spells its host,
where a redirect leads and what the name will resolve to a moment later make no difference.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

import httpcore2

from antiphon.config import ReferenceSettings
from antiphon.errors import InvalidRequestError

IPAddress: TypeAlias = IPv4Address | IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Takes a host and a port, returns numeric addresses; raises `OSError` or `ValueError`."""

# Our own tables of IANA's registries: `is_global` differs between Python versions.
_NOT_PUBLIC_IPV4 = tuple(
    IPv4Network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",  # looks public, but is the host of a virtual machine on Azure
    )
)
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_NOT_PUBLIC_IPV6 = tuple(
    IPv6Network(network)  # protocols such as Teredo, documentation, 6to4, documentation
    for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
_NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceUse:
    """What a reference is loaded for.

    Attributes:
        title: Noun for the file in errors: ``"reference audio"``.
        param: the request's field that holds it.
        accept: media types that its server is asked for.
    """

    title: str
    param: str
    accept: str
    max_bytes: int

    def error(self, message: str) -> InvalidRequestError:
        """Return an error that names the request's field."""
        return InvalidRequestError(message, param=self.param)

    def too_large(self) -> InvalidRequestError:
        """Return the error for too many bytes."""
        limit = f"{self.max_bytes / 2**20:.3g} MiB"
        return self.error(f"{self.title.capitalize()} too large. Maximum {limit} supported.")


def is_public(address: IPAddress) -> bool:
    """Whether an address belongs to the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_IPV4)
    if address in _NAT64:
        return is_public(IPv4Address(address.packed[-4:]))
    return address in _PUBLIC_IPV6 and not any(address in network for network in _NOT_PUBLIC_IPV6)


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Ask the system for the addresses of a host; a `Resolve`."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """Makes the connections of an HTTP client, only to hosts and addresses that are allowed."""

    def __init__(self, settings: ReferenceSettings, resolve: Resolve, use: ReferenceUse) -> None:
        self._allowed_hosts = tuple(_normal(host) for host in settings.allowed_hosts)
        self._allowed_networks = settings.allowed_networks
        self._timeout_s = settings.timeout_s
        self._resolve = resolve
        self._use = use
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first of the host's addresses that answers.

        Raises:
            InvalidRequestError: the host, or one of its addresses, is not allowed.
            httpcore2.ConnectError, httpcore2.ConnectTimeout: none can be reached.
        """
        failure: Exception | None = None
        addresses = await self._checked_addresses(host, port)
        for address in addresses:
            share_s = self._timeout_s / len(addresses)  # one that is silent leaves time for others
            try:
                return await self._network.connect_tcp(
                    str(address), port, share_s, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore2.ConnectError(f"{host} has no address")

    async def _checked_addresses(self, host: str, port: int) -> list[IPAddress]:
        if not self._is_allowed_host(host):
            raise self._refusal(host, f"allowed hosts are {', '.join(self._allowed_hosts)}")
        try:
            addresses = [ip_address(address) for address in await self._resolve(host, port)]
        except (OSError, ValueError) as error:
            raise httpcore2.ConnectError(f"{host} cannot be resolved") from error
        if not all(self._is_allowed_address(address) for address in addresses):
            raise self._refusal(host, "its address is not public")
        return addresses

    def _refusal(self, host: str, reason: str) -> InvalidRequestError:
        title = self._use.title.capitalize()
        return self._use.error(f"{title} may not be fetched from '{host}': {reason}.")

    def _is_allowed_host(self, host: str) -> bool:
        host = _normal(host)
        return not self._allowed_hosts or any(
            host.endswith(allowed[1:]) if allowed.startswith("*.") else host == allowed
            for allowed in self._allowed_hosts
        )

    def _is_allowed_address(self, address: IPAddress) -> bool:
        return is_public(address) or any(address in network for network in self._allowed_networks)


def _normal(host: str) -> str:
    return host.lower().removesuffix(".")
