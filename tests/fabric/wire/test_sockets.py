"""Who may connect: nobody without the token, or through a folder that is open to others."""

import asyncio
import random
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from antiphon.errors import ReplicaLostError, SettingsError
from antiphon.fabric.wire import sockets
from antiphon.fabric.wire.address import WireAddress
from antiphon.fabric.wire.frames import WireLimits
from antiphon.fabric.wire.handshake import greet
from antiphon.fabric.wire.rpc import RpcHandlers, RpcPeer
from antiphon.fabric.wire.sockets import RpcServer, WireTls, connect
from tests.fabric.wire.peers import TOKEN, calls, connected
from tests.loops import until

LOOPBACK = "tcp:127.0.0.1:0"


async def ping() -> str:
    return "pong"


@asynccontextmanager
async def serving(
    address: str = LOOPBACK, *, limits: WireLimits | None = None, tls: WireTls | None = None
) -> AsyncGenerator[tuple[RpcServer, str], None]:
    server = RpcServer(lambda _: calls(ping=ping), TOKEN, limits=limits, tls=tls)
    try:
        yield server, await server.serve(address)
    finally:
        await server.close()


async def stranger(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    _, host, port = address.split(":")
    return await asyncio.open_connection(host, int(port))


async def assert_works(address: str, tls: WireTls | None = None) -> None:
    client = await connect(address, TOKEN, tls=tls)
    assert await client.call("ping") == "pong"
    client.close()


@pytest.mark.parametrize("token", ["", "another", TOKEN + " "])
async def test_another_token_is_refused_on_both_sides(token: str, tmp_path: Path) -> None:
    for address in (LOOPBACK, f"unix:{tmp_path}/wire/socket"):
        async with serving(address) as (server, bound):
            with pytest.raises(ReplicaLostError, match="ANTIPHON_CLUSTER_TOKEN"):
                await connect(bound, token)
            assert not server.peers
            await assert_works(bound)


async def test_a_server_that_does_not_know_the_token_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever listens in a server's place learns nothing: it cannot answer the challenge."""
    ended = asyncio.Event()

    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = await reader.readexactly(48)
        writer.write(hello)
        await reader.readexactly(32)
        writer.write(bytes(32))
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(pretend, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ReplicaLostError, match="does not know the cluster's token"):
        await connect(f"tcp:127.0.0.1:{port}", TOKEN)
    await ended.wait()
    server.close()


async def test_tcp_needs_a_token() -> None:
    with pytest.raises(SettingsError, match="ANTIPHON_CLUSTER_TOKEN"):
        await RpcServer(lambda _: RpcHandlers(), "").serve(LOOPBACK)


async def test_strangers_are_sent_away_after_a_while() -> None:
    async with serving(limits=WireLimits(handshake_s=0.2)) as (server, address):
        reader, writer = await stranger(address)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        assert not server.peers


async def test_many_strangers_do_not_keep_ours_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "MAX_UNPROVEN", 4)
    async with serving() as (server, address):
        many = [await stranger(address) for _ in range(20)]
        await assert_works(address)
        for reader, _ in many[:16]:
            assert await reader.read() == b""
        assert len(server._unproven) <= 4
        for _, writer in many:
            writer.close()
            with suppress(ConnectionResetError):
                await writer.wait_closed()


async def test_noise_ends_its_connection_and_nothing_else() -> None:
    noise = random.Random(1)
    async with serving() as (server, address):
        client = await connect(address, TOKEN)
        for size in (1, 47, 48, 49, 80, 1000, 600_000):
            reader, writer = await stranger(address)
            writer.write(noise.randbytes(size))
            if size < 48:
                writer.write_eof()
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
            with suppress(ConnectionResetError):
                await writer.wait_closed()
        assert await client.call("ping") == "pong"
        assert len(server.peers) == 1
        client.close()


async def test_noise_of_a_process_of_ours_ends_its_connection_and_nothing_else(
    tmp_path: Path,
) -> None:
    noise = random.Random(2)
    async with serving(f"unix:{tmp_path}/wire/socket") as (server, address):
        other = await connect(address, TOKEN)
        for size in (8, 100, 10_000, 1_000_000):
            client = await connect(address, TOKEN)
            transport = client.connection._transport
            assert transport is not None
            transport.write(noise.randbytes(size))
            await client.closed.wait()
        assert await other.call("ping") == "pong"
        await until(lambda: len(server.peers) == 1)
        other.close()


async def test_silence_counts_as_loss_and_a_sign_of_life_does_not(tmp_path: Path) -> None:
    limits = WireLimits(ping_s=0.05, silence_s=1.0)  # more than a busy machine holds up
    async with connected(tmp_path, calls(ping=ping), limits=limits) as (client, there):
        await asyncio.sleep(1.5)
        assert await client.call("ping") == "pong"
        there.connection._timer.cancel()  # it gives no sign any more
        await client.closed.wait()
        assert client.lost is not None
        assert "No data from the peer" in str(client.lost)


async def test_a_caller_that_gives_up_at_the_end_of_the_handshake_leaves_nothing_open() -> None:
    loop = asyncio.get_running_loop()
    reported: list[str] = []
    loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
    async with serving() as (server, bound):
        _, host, port = bound.split(":")
        peer = RpcPeer(greet(TOKEN.encode()))
        peer.connection.ready.cancel()
        await loop.create_connection(lambda: peer.connection, host, int(port))
        await until(lambda: not peer.connection.is_open)
        await until(lambda: not server.peers)
    assert not reported


async def test_nobody_there_is_a_loss(tmp_path: Path) -> None:
    for address in (f"unix:{tmp_path}/none", "tcp:127.0.0.1:1"):
        with pytest.raises(ReplicaLostError, match="cannot be reached"):
            await connect(address, TOKEN)


async def test_the_folder_of_a_socket_is_private(tmp_path: Path) -> None:
    async with serving(f"unix:{tmp_path}/new/socket"):
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert not (tmp_path / "new" / "socket").exists()
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(SettingsError, match="chmod 700"):
        async with serving(f"unix:{tmp_path}/open/socket"):
            pass


async def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/wire/socket"
    async with serving(address) as (server, _):
        (listening, _), *_ = server._servers
        server._servers.clear()
        listening.close()
    async with serving(address):
        await assert_works(address)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> WireTls:
    """Return the files of an authority of its own."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    made = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *made, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=cluster")
    openssl("req", *made, "-keyout", "our.key", "-out", "our.csr", "-subj", "/CN=stage")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
    openssl("x509", "-req", "-in", "our.csr", *signing, "-out", "our.pem")
    return WireTls(
        certificate=folder / "our.pem", key=folder / "our.key", authority=folder / "ca.pem"
    )


async def test_tls_works_and_is_required(tls: WireTls, tmp_path: Path) -> None:
    limits = WireLimits(handshake_s=2.0)
    async with serving(tls=tls, limits=limits) as (_, address):
        await assert_works(address, tls)
        with pytest.raises(ReplicaLostError):
            await connect(address, TOKEN, limits=limits)
        await assert_works(address, tls)


async def test_a_certificate_of_another_authority_is_refused(
    tls: WireTls, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("other")
    request = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=stage")
    made = ["openssl", *request, "-keyout", "key.pem", "-out", "own.pem"]
    subprocess.run(made, cwd=folder, check=True, capture_output=True)
    own = WireTls(
        certificate=folder / "own.pem", key=folder / "key.pem", authority=folder / "own.pem"
    )
    half = WireTls(certificate=own.certificate, key=own.key, authority=tls.authority)
    limits = WireLimits(handshake_s=2.0)
    async with serving(tls=tls, limits=limits) as (server, address):
        for wrong in (own, half):
            with pytest.raises(ReplicaLostError):
                await connect(address, TOKEN, tls=wrong)
        assert not server.peers
        await until(lambda: not server._unproven)  # though their connections were never made


def test_missing_files_for_tls_are_a_wrong_setting(tls: WireTls, tmp_path: Path) -> None:
    missing = WireTls(certificate=tmp_path / "no", key=tls.key, authority=tls.authority)
    with pytest.raises(SettingsError, match="TLS"):
        missing.context(is_server=True)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/antiphon/a.sock", WireAddress(Path("/run/antiphon/a.sock"))),
        ("tcp:10.0.0.3:9000", WireAddress(None, "10.0.0.3", 9000)),
        ("tcp:stage-1.cluster:0", WireAddress(None, "stage-1.cluster", 0)),
        ("tcp:[::1]:9000", WireAddress(None, "::1", 9000)),
    ],
)
def test_addresses_are_read_and_written_alike(text: str, address: WireAddress) -> None:
    assert WireAddress.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "unix:", "tcp:", "tcp:host", "tcp::1", "tcp:host:x", "tcp:host:70000", "http://a"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"unix:PATH, or tcp:HOST:PORT"):
        WireAddress.parse(text)


def test_a_name_too_long_for_a_socket_is_refused() -> None:
    with pytest.raises(SettingsError, match="shorter folder"):
        WireAddress.parse("unix:/" + "a" * 107)
