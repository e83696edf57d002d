"""References by URL: what they may not reach, and how long and how much a server may answer."""

import asyncio
import ssl
from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any, TypeVar

import pytest

from antiphon.config import ReferenceSettings
from antiphon.errors import InvalidRequestError
from antiphon.media.references import ReferenceLoader
from tests.loops import on_a_loop
from tests.media.raw_server import dripping, endless, moved, ok, said, serving, silent
from tests.media.reference_loading import BODY, audio_use, loaded, loading, resolving

T = TypeVar("T")
TLS = Path(__file__).parent / "tls"
LOOPBACK = (ip_network("127.0.0.0/8"),)


@on_a_loop
async def fetched(answers: dict[str, Any], path: str = "/", **changes: Any) -> bytes:
    """Load a path of a server that loopback addresses are allowed for."""
    async with serving(answers) as server:
        allowed = {"allow_urls": True, "allowed_networks": LOOPBACK, **changes}
        return await loading(server.url(path), **allowed)


def test_urls_are_refused_by_default() -> None:
    with pytest.raises(InvalidRequestError, match="fetches no URLs"):
        loaded("https://example.com/a.wav")
    with pytest.raises(InvalidRequestError, match="must be a data: URI"):
        loaded("ftp://example.com/a.wav", allow_urls=True)


async def test_what_is_asked_and_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    cookie = b"Set-Cookie: a=b\r\nLocation: /b?c=%C3%A4\r\nContent-Length: 0\r\n\r\n"
    async with serving(
        {
            "/a%20b/%C3%A4?d=e%20f": said(b"HTTP/1.1 302 Found\r\n" + cookie),
            "/b?c=%C3%A4": ok(BODY),
        }
    ) as server:
        changes: dict[str, Any] = {"allow_urls": True, "allowed_networks": LOOPBACK}
        url = server.url("/a b/ä?d=e f#g").replace("http:", "HTTP:")
        assert await loading(url, **changes) == BODY
        first, second = server.requests
        assert first.startswith("GET /a%20b/%C3%A4?d=e%20f HTTP/1.1\r\n")
        assert f"Host: 127.0.0.1:{server.port}\r\n" in first
        assert "Cookie" not in second
        assert "Authorization" not in first


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "0", "localhost"),
        *("LocalHost", "[::1]", "[::ffff:10.0.0.1]", "[::ffff:7f00:1]", "[::ffff:127.0.0.1]"),
        *("10.0.0.1", "169.254.169.254", "192.168.0.1", "172.16.0.1", "100.64.0.1", "0.0.0.0"),
        *("[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::]", "224.0.0.1"),
        *("①②⑦.⓪.⓪.①", "１２７.0.0.1", "127。0。0。1"),
    ],
)
async def test_no_spelling_of_a_private_address_is_connected_to(host: str) -> None:
    async with serving({"/": ok(BODY)}) as server:
        with pytest.raises(InvalidRequestError, match="its address is not public"):
            await loading(server.url("/", host), allow_urls=True)
        assert server.num_connections == 0


@pytest.mark.parametrize(
    "url",
    [
        *("http://", "http:///a", "http://[::1", "http://[fe80::1%25eth0]/", "http://a b/"),
        *("http://a:99999/", "http://a:x/", "http://me:pw@example.com/", "http://me@example.com/"),
        *("http://a%00b/", "http://a\\b/", "http://exämple\ud800.com/", "http://a_[]/"),
    ],
)
def test_wrong_urls(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="Could not fetch reference audio"):
        loaded(url, allow_urls=True, resolve=resolving(a=["8.8.8.8"]))


def test_one_private_address_among_public_ones_is_one_too_many() -> None:
    for found in (["10.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["2606:4700::1", "::1"]):
        with pytest.raises(InvalidRequestError, match=r"'a\.example': its address is not public"):
            loaded("http://a.example/", allow_urls=True, resolve=resolving(a_example=found))
    with pytest.raises(InvalidRequestError, match="no complete answer"):
        loaded("http://a.example/", allow_urls=True, resolve=resolving(a_example=[]))
    with pytest.raises(InvalidRequestError, match="no complete answer"):
        loaded("http://b.example/", allow_urls=True, resolve=resolving(a_example=[]))


async def test_a_name_is_resolved_once_and_the_checked_address_is_used() -> None:
    """A name that changes its mind between check and use (rebinding) has nothing to change."""
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.2" if len(asked) == 1 else "127.0.0.1"]

    async with serving({"/": ok(BODY)}) as server:
        only_the_second = (ip_network("127.0.0.2/32"),)
        with pytest.raises(InvalidRequestError, match="no complete answer"):  # nobody listens there
            await loading(
                server.url("/", "a.example"),
                resolve=rebinding,
                allow_urls=True,
                allowed_networks=only_the_second,
            )
        assert asked == ["a.example"]
        assert server.num_connections == 0
        with pytest.raises(InvalidRequestError, match="not public"):
            await loading(
                server.url("/", "a.example"),
                resolve=rebinding,
                allow_urls=True,
                allowed_networks=only_the_second,
            )
        assert server.num_connections == 0


async def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    async with serving({"/": ok(BODY)}) as server:
        found = await loading(
            server.url("/", "a.example"),
            resolve=resolving(a_example=["127.0.0.2", "127.0.0.1"]),
            allow_urls=True,
            allowed_networks=LOOPBACK,
        )
    assert found == BODY


def test_redirects_are_followed_and_each_is_checked() -> None:
    answers = {f"/{n}": moved(f"/{n - 1}", status) for n, status in ((1, 301), (2, 307), (3, 308))}
    answers |= {"/0": ok(BODY), "/4": moved("3", 303)}
    assert fetched(answers, "/3") == BODY
    with pytest.raises(InvalidRequestError, match="more than 3 redirects"):
        fetched(answers, "/4")
    for location in ("http://10.0.0.1/", "http://[::1]/", "//169.254.169.254/latest", "http://0/"):
        with pytest.raises(InvalidRequestError, match="its address is not public"):
            fetched({"/": moved(location)})
    for location in ("file:///etc/passwd", "ftp://a/", "data:,a", "gopher://a/"):
        with pytest.raises(InvalidRequestError, match="URLs are not supported"):
            fetched({"/": moved(location)})
    with pytest.raises(InvalidRequestError, match="not a URL"):
        fetched({"/": moved("http://[/")})


async def test_allowed_hosts() -> None:
    allowed = ("a.example", "*.B.example.")
    changes = {"allow_urls": True, "allowed_networks": LOOPBACK, "allowed_hosts": allowed}
    hosts = ("a.example", "x.b.example", "x.y.b.example", "A.Example.")
    resolve = resolving(
        a_example=["127.0.0.1"],
        **{
            host.replace(".", "_"): ["127.0.0.1"]
            for host in ("x.b.example", "x.y.b.example", "a.example.")
        },
    )
    async with serving({"/": ok(BODY), "/away": moved("http://c.example/")}) as server:
        for host in hosts:
            assert await loading(server.url("/", host), resolve=resolve, **changes) == BODY
        for host in ("b.example", "xb.example", "a.example.org", "x.a.example", "127.0.0.1"):
            with pytest.raises(InvalidRequestError, match=r"allowed hosts are a\.example"):
                await loading(server.url("/", host), resolve=resolve, **changes)
        with pytest.raises(InvalidRequestError, match="allowed hosts are"):
            await loading(server.url("/away", "a.example"), resolve=resolve, **changes)
        assert server.num_connections == len(hosts) + 1


@pytest.mark.parametrize("answer", [silent, dripping, said(b"HTTP/1.1 200 OK\r\n"), endless])
def test_no_server_takes_more_than_its_time_or_bytes(answer: Any) -> None:
    with pytest.raises(InvalidRequestError, match=r"longer than 0\.3s|no complete|too large"):
        fetched({"/": answer}, timeout_s=0.3)


def test_slow_names_and_redirects_share_the_time() -> None:
    async def slow(host: str, port: int) -> Sequence[str]:
        await asyncio.sleep(60)
        raise AssertionError

    with pytest.raises(InvalidRequestError, match=r"longer than 0\.1s"):
        loaded("http://a.example/", resolve=slow, allow_urls=True, timeout_s=0.1)


def test_bytes_are_counted_whatever_is_declared() -> None:
    size = len(BODY)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
    bare = b"HTTP/1.1 200 OK\r\n\r\n"
    for answer in (ok(BODY), said(chunked % (size, BODY)), said(bare, BODY)):
        assert fetched({"/": answer}, max_bytes=size) == BODY
        with pytest.raises(InvalidRequestError, match="too large"):
            fetched({"/": answer}, max_bytes=size - 1)
    with pytest.raises(InvalidRequestError, match="too large"):
        fetched({"/": endless}, max_bytes=size)
    with pytest.raises(InvalidRequestError, match="too large"):  # at once, on its word
        fetched({"/": said(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")})
    with pytest.raises(InvalidRequestError, match="no complete answer"):  # more is declared
        fetched({"/": said(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + BODY)})
    less = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + BODY
    assert fetched({"/": said(less)}) == BODY[:5]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\nsecret", "status 404"),
        (b"HTTP/1.1 206 Partial\r\nContent-Length: 1\r\n\r\na", "status 206"),
        (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", "status 302"),
        (b"hello\r\n\r\n", "no complete answer"),
        (b"", "no complete answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "no complete answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "no complete answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000, "no complete answer"),
    ],
)
def test_wrong_answers(answer: bytes, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as refused:
        fetched({"/": said(answer)})
    assert "secret" not in refused.value.message
    assert refused.value.param == "ref_audio"


async def test_certificates_are_verified_for_the_name_in_the_url() -> None:
    mine = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    mine.load_cert_chain(TLS / "server.pem")
    trusting = ssl.create_default_context(cafile=TLS / "authority.pem")
    resolve = resolving(voices_example=["127.0.0.1"], other_example=["127.0.0.1"])
    settings = ReferenceSettings(allow_urls=True, allowed_networks=LOOPBACK)

    async def load(url: str, context: ssl.SSLContext | None) -> bytes:
        loader = ReferenceLoader(settings, resolve=resolve, ssl_context=context)
        try:
            return await loader.load(url, audio_use(settings))
        finally:
            loader.close()

    async with serving({"/": ok(BODY)}, ssl_context=mine) as server:
        url = server.url("/", "voices.example", "https")
        assert await load(url, trusting) == BODY
        for wrong, context in (
            (url, None),
            (server.url("/", "other.example", "https"), trusting),
            (server.url("/", "127.0.0.1", "https"), trusting),
        ):
            with pytest.raises(InvalidRequestError, match="no complete answer"):
                await load(wrong, context)
        assert len(server.requests) == 1


async def test_many_at_once_do_not_meet() -> None:
    async with serving({f"/{n}": ok(b"%d" % n) for n in range(20)}) as server:
        settings = ReferenceSettings(allow_urls=True, allowed_networks=LOOPBACK)
        loader = ReferenceLoader(settings)
        use = audio_use(settings)
        bodies = await asyncio.gather(*(loader.load(server.url(f"/{n}"), use) for n in range(20)))
        assert bodies == [b"%d" % n for n in range(20)]
        loader.close()
