"""Listening at an address and connecting to one, over Unix sockets, TCP, or TLS."""

import asyncio
import logging
import os
import ssl
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from antiphon.errors import ReplicaLostError, SettingsError
from antiphon.fabric.wire.address import WireAddress
from antiphon.fabric.wire.frames import WireLimits
from antiphon.fabric.wire.handshake import answer, greet
from antiphon.fabric.wire.rpc import RpcHandlers, RpcPeer

logger = logging.getLogger(__name__)

_CLOSE_S = 2.0
MAX_UNPROVEN = 64
"""Connections at once that have not shown yet that they know the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireTls:
    """Files in PEM form for TLS, in which each side checks the other's certificate.

    Attributes:
        authority: certificates that the other side's must be signed by.
    """

    certificate: Path
    key: Path
    authority: Path

    @classmethod
    def of_folder(cls, folder: Path) -> "WireTls":
        """Return the files of a folder: cert.pem, key.pem and ca.pem."""
        return cls(
            certificate=folder / "cert.pem", key=folder / "key.pem", authority=folder / "ca.pem"
        )

    def context(self, *, is_server: bool) -> ssl.SSLContext:
        """Return what a connection is made with; raises SettingsError.

        A peer with a certificate of the authority belongs to the cluster; names of hosts are not
        checked, since those of pods change.
        """
        purpose = ssl.Purpose.CLIENT_AUTH if is_server else ssl.Purpose.SERVER_AUTH
        try:
            context = ssl.create_default_context(purpose, cafile=str(self.authority))
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(f"The files for TLS cannot be used: {error}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        return context


Welcome = Callable[[RpcPeer], RpcHandlers]
"""Returns what is done for a process that has connected and proved itself."""


class RpcServer:
    """Accepts connections, and serves each by handlers of its own.

    Attributes:
        peers: connected peers that have proved themselves.
    """

    def __init__(
        self,
        welcome: Welcome,
        token: str,
        *,
        tls: WireTls | None = None,
        limits: WireLimits | None = None,
    ) -> None:
        """Begin without an address.

        Args:
            tls: TLS of TCP addresses; ``None``: unencrypted.
        """
        self.peers: set[RpcPeer] = set()
        self._welcome = welcome
        self._token = token
        self._tls = tls
        self._limits = limits
        self._unproven: dict[RpcPeer, None] = {}  # in order of arrival
        self._servers: list[tuple[asyncio.Server, WireAddress]] = []

    async def serve(self, address: str) -> str:
        """Listen at an address until `close`; return it with the port that was chosen.

        Raises:
            SettingsError: it is no address, its folder is open to others, or there is no token.
            OSError: it is taken, or not ours.
        """
        bound = WireAddress.parse(address)
        if not self._token:
            raise SettingsError(f"'{address}' needs a token: ANTIPHON_CLUSTER_TOKEN is empty.")
        loop = asyncio.get_running_loop()
        if bound.path is not None:
            _make_private(bound.path.parent)
            server = await loop.create_unix_server(self._accept, str(bound.path))
        else:
            tls = None if self._tls is None else self._tls.context(is_server=True)
            server = await loop.create_server(self._accept, bound.host, bound.port, ssl=tls)
            bound = WireAddress(None, bound.host, server.sockets[0].getsockname()[1])
        self._servers.append((server, bound))
        return str(bound)

    async def close(self) -> None:
        """Stop listening, and end every connection."""
        servers, self._servers = self._servers, []
        for server, bound in servers:
            server.close()
            if bound.path is not None:
                bound.path.unlink(missing_ok=True)
        closing = [*self.peers, *self._unproven]
        for peer in closing:
            peer.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):  # for what was sent to be read
                for peer in closing:
                    await peer.connection.gone.wait()
        for peer in closing:
            peer.connection.abort("It was closed.")

    def _accept(self) -> asyncio.BaseProtocol:
        peer = RpcPeer(
            answer(self._token.encode()),
            limits=self._limits,
            on_proved=self._proved,
            on_lost=self._lost,
        )
        self._unproven[peer] = None
        if len(self._unproven) > MAX_UNPROVEN:  # a process of ours is through in no time
            oldest = next(iter(self._unproven))
            oldest.connection.abort("Too many connections have not proved themselves.")
        return peer.connection

    def _proved(self, peer: RpcPeer) -> None:
        del self._unproven[peer]
        self.peers.add(peer)
        peer.use(self._welcome(peer))

    def _lost(self, peer: RpcPeer) -> None:
        if peer in self._unproven:
            logger.warning("a connection was refused: %s", peer.lost)
        self._unproven.pop(peer, None)
        self.peers.discard(peer)


async def connect(
    address: str,
    token: str,
    handlers: RpcHandlers | None = None,
    *,
    tls: WireTls | None = None,
    limits: WireLimits | None = None,
) -> RpcPeer:
    """Connect to a process that listens at an address, and prove ourselves.

    Args:
        tls: TLS of a TCP address; ``None``: unencrypted.

    Raises:
        SettingsError: it is no address, or the files for TLS are wrong.
        ReplicaLostError: no process of this cluster listens there.
    """
    to = WireAddress.parse(address)
    loop = asyncio.get_running_loop()
    peer = RpcPeer(greet(token.encode()), handlers, limits)
    context = None if tls is None else tls.context(is_server=False)
    try:
        async with asyncio.timeout((limits or WireLimits()).handshake_s):
            if to.path is not None:
                await loop.create_unix_connection(lambda: peer.connection, str(to.path))
            else:
                await loop.create_connection(lambda: peer.connection, to.host, to.port, ssl=context)
            await peer.connection.ready
    except (OSError, TimeoutError, ssl.SSLError) as error:
        raise ReplicaLostError(f"{address} cannot be reached: {error or 'no answer'}") from error
    finally:
        if not peer.connection.is_proved:
            peer.connection.abort("The caller gave up.")
    return peer


def _make_private(folder: Path) -> None:
    """Create a folder that only this user can enter, or check that it is one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise SettingsError(f"The folder of sockets '{folder}' is open to others: chmod 700 it.")
