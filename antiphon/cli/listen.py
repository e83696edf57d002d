"""Takes the server's address before the model is loaded, so that a port in use fails at once."""

import errno
import os
import socket
from collections.abc import Iterable
from contextlib import ExitStack
from ipaddress import ip_address

from antiphon.config import ServerSettings
from antiphon.errors import SettingsError

_NO_SUCH_ADDRESS_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def bind(server: ServerSettings) -> list[socket.socket]:
    """Bind, but do not listen yet: early clients are refused instead of kept waiting.

    A host name may mean several addresses (localhost: IPv4 and IPv6); all get the same port. ``::``
    means every address, of IPv4 too.

    Raises:
        SettingsError: the address is in use, cannot be taken, or would open the server to
            other machines without a key.
    """
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    port = server.port
    with ExitStack() as undo:
        try:
            for address in _addresses(server):
                try:
                    bound = _bind_one(*address, port)
                except OSError as error:
                    if error.errno not in _NO_SUCH_ADDRESS_HERE:
                        raise
                    missing = error  # for example, a machine without IPv6: the others may do
                    continue
                undo.callback(bound.close)
                sockets.append(bound)
                port = bound.getsockname()[1]
                _check_reach(server, address[1])
            if missing and not sockets:
                raise missing
        except OSError as error:
            raise SettingsError(_explain(server, error)) from error
        undo.pop_all()
    return sockets


def _addresses(server: ServerSettings) -> list[tuple[socket.AddressFamily, str]]:
    found = socket.getaddrinfo(
        server.host, server.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    addresses = [(family, str(address[0])) for family, *_, address in found]
    if (socket.AF_INET6, "::") in addresses:
        addresses.append((socket.AF_INET, "0.0.0.0"))
    return list(dict.fromkeys(addresses))


def listened(sockets: Iterable[socket.socket]) -> str:
    """Return the addresses of bound sockets, with their ports."""
    names = [each.getsockname()[:2] for each in sockets]
    return ", ".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in names
    )


def _bind_one(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    with ExitStack() as undo:
        bound = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
        if os.name == "posix":  # elsewhere the option lets two servers share a port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
        undo.pop_all()
    return bound


def _check_reach(server: ServerSettings, host: str) -> None:
    """Refuse to serve other machines without a key unless that is wanted."""
    if server.api_keys or server.api_keys_file is not None or server.allow_no_key:
        return
    if not ip_address(host.partition("%")[0]).is_loopback:
        raise SettingsError(
            f"Other machines can reach {server.host}, and no API key is set. Set one with --api-key"
            " or ANTIPHON_SERVER_API_KEYS ('antiphon keys new' makes one), or say --allow-no-key."
        )


def _explain(server: ServerSettings, error: OSError) -> str:
    where = f"{server.host}:{server.port}"
    if error.errno == errno.EADDRINUSE:
        return f"{where} is in use. Choose another port with --port; 0 picks a free one."
    return f"Cannot listen on {where}: {error.strerror or error}."
