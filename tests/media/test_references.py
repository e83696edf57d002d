"""References: what they stand for, what they may not reach, and how much they may be."""

import asyncio
import base64
import os
import ssl
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from antiphon.config import ReferenceSettings
from antiphon.config.sources import load_settings
from antiphon.errors import InvalidRequestError
from antiphon.media import addresses
from antiphon.media.references import ReferenceLoader, image_use
from tests.media.raw_server import RawServer, dripping, endless, moved, ok, said, serving, silent

T = TypeVar("T")
TLS = Path(__file__).parent / "tls"
TRUSTING_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
LOOPBACK = (ip_network("127.0.0.0/8"),)
BODY = bytes(range(256)) * 40


def audio_use(settings: ReferenceSettings) -> addresses.ReferenceUse:
    return addresses.ReferenceUse(
        title="reference audio", param="ref_audio", accept="audio/*", max_bytes=settings.max_bytes
    )


async def loading(
    reference: str, resolve: addresses.Resolve = addresses.resolve_host, **changes: Any
) -> bytes:
    """Load with default settings but for ``changes``."""
    settings = ReferenceSettings(**changes)
    loader = ReferenceLoader(settings, resolve=resolve, ssl_context=TRUSTING_NOBODY)
    try:
        return await loader.load(reference, audio_use(settings))
    finally:
        loader.close()


def loaded(reference: str, **changes: Any) -> bytes:
    return asyncio.run(loading(reference, **changes))


def served(answers: dict[str, Any], test: Callable[[RawServer], Awaitable[T]], **server: Any) -> T:
    async def main() -> T:
        async with serving(answers, **server) as state:
            return await test(state)

    return asyncio.run(main())


def fetched(answers: dict[str, Any], path: str = "/", **changes: Any) -> bytes:
    """Load a path of a server that loopback addresses are allowed for."""

    async def test(server: RawServer) -> bytes:
        allowed = {"allow_urls": True, "allowed_networks": LOOPBACK, **changes}
        return await loading(server.url(path), **allowed)

    return served(answers, test)


def resolving(**answers: Sequence[str]) -> addresses.Resolve:
    """Return a resolver that knows these hosts only (``_`` stands for a dot)."""
    known = {host.replace("_", "."): list(found) for host, found in answers.items()}

    async def resolve(host: str, port: int) -> Sequence[str]:
        if host not in known:
            raise OSError("no such host")
        return known[host]

    return resolve


# data: URIs


@given(st.binary(max_size=200), st.sampled_from(["audio/wav", "", "audio/ogg;codecs=opus"]))
@settings(deadline=None, derandomize=True)
def test_data_uris(data: bytes, media_type: str) -> None:
    encoded = base64.b64encode(data).decode()
    wrapped = "\r\n ".join(encoded[i : i + 7] for i in range(0, len(encoded), 7))
    for content in (encoded, encoded.rstrip("="), quote(encoded, safe=""), wrapped):
        assert loaded(f"data:{media_type};base64,{content}") == data
        assert loaded(f"DATA:{media_type};BASE64,{content}") == data
    assert loaded(f"data:{media_type},{quote(data, safe='')}") == data


def test_data_uris_are_sized_before_they_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (100, 101):
        uris = (
            f"data:;base64,{base64.b64encode(bytes(size)).decode()}",
            f"data:,{'a' * size}",
            f"data:,{'%00' * size}",
        )
        for uri in uris:
            if size == 100:
                assert len(loaded(uri, max_bytes=100)) == 100
            else:
                with pytest.raises(InvalidRequestError, match="too large") as refused:
                    loaded(uri, max_bytes=100)
                assert refused.value.param == "ref_audio"
    monkeypatch.setattr(base64, "b64decode", None)
    with pytest.raises(InvalidRequestError, match="too large"):
        loaded("data:;base64," + "A" * 1000, max_bytes=100)


@pytest.mark.parametrize(
    "uri",
    ["data:", "data:audio/wav;base64", "data:;base64,A", "data:;base64,A*AA", "data:;base64,é"],
)
def test_wrong_data_uris(uri: str) -> None:
    with pytest.raises(InvalidRequestError, match="Could not load reference audio: its data: URI"):
        loaded(uri)


@given(st.text(max_size=40), st.sampled_from(["", "data:", "data:;base64,", "http://", "file:///"]))
@example("\ud800", "data:,")
@example("\ud800", "data:;base64,%41")
@example("[", "http://")
@example("\x00", "file:///")
@example("a:99999", "http://")
@settings(deadline=None, derandomize=True)
def test_no_reference_is_worse_than_wrong(rest: str, beginning: str) -> None:
    changes: dict[str, Any] = {"allow_urls": True, "allowed_media_path": Path(__file__).parent}
    try:
        loaded(beginning + rest, resolve=resolving(), **changes)
    except InvalidRequestError as error:
        assert error.param == "ref_audio"  # noqa: PT017


# file: URIs


@pytest.fixture
def media(tmp_path: Path) -> Path:
    directory = tmp_path / "media"
    directory.mkdir()
    (directory / "ä b.wav").write_bytes(BODY)
    (tmp_path / "secret.wav").write_bytes(b"secret")
    (tmp_path / "media-too").mkdir()
    (tmp_path / "media-too" / "a.wav").write_bytes(b"secret")
    return directory


def test_files_below_the_allowed_directory(media: Path) -> None:
    file = media / "ä b.wav"
    (media / "link.wav").symlink_to(file)
    (media.parent / "door").symlink_to(media)
    assert loaded(file.as_uri(), allowed_media_path=media) == BODY
    assert loaded("file://localhost" + quote(str(file)), allowed_media_path=media) == BODY
    assert loaded((media / "link.wav").as_uri(), allowed_media_path=media) == BODY
    assert loaded(file.as_uri(), allowed_media_path=media.parent / "door") == BODY
    assert loaded(file.as_uri(), allowed_media_path=media, max_bytes=len(BODY)) == BODY
    with pytest.raises(InvalidRequestError, match="too large"):
        loaded(file.as_uri(), allowed_media_path=media, max_bytes=len(BODY) - 1)


def test_files_are_refused_by_default(media: Path) -> None:
    with pytest.raises(InvalidRequestError, match="reads no file: URIs"):
        loaded((media / "ä b.wav").as_uri())


def test_no_path_leads_out(media: Path) -> None:
    (media / "link").symlink_to(media.parent)
    (media / "link.wav").symlink_to(media.parent / "secret.wav")
    (media / "loop").symlink_to(media / "loop")
    messages = set()
    for path in (
        *(
            "secret.wav",
            "media/../secret.wav",
            "media/%2e%2e/secret.wav",
            "media%2F..%2Fsecret.wav",
        ),
        *("media/link/secret.wav", "media/link.wav", "media-too/a.wav", "nothing.wav", ""),
    ):
        uri = f"file://{quote(str(media.parent))}/{path}"
        with pytest.raises(InvalidRequestError) as refused:
            loaded(uri, allowed_media_path=media)
        messages.add(refused.value.message)
    # One message for all: nobody learns what there is outside.
    assert len(messages) == 1
    for uri in ("file:secret.wav", "file:///dev/zero", "file://host/a.wav", "file:"):
        with pytest.raises(InvalidRequestError, match="leads out"):
            loaded(uri, allowed_media_path=media)


def test_what_is_no_plain_file_is_not_read(media: Path) -> None:
    (media / "directory").mkdir()
    os.mkfifo(media / "pipe")
    (media / "loop").symlink_to(media / "loop")
    for name in ("directory", "pipe", "loop", "nothing", "a" * 5000):
        with pytest.raises(InvalidRequestError, match="names no file"):
            loaded((media / name).as_uri(), allowed_media_path=media)


# URLs


def test_urls_are_refused_by_default() -> None:
    with pytest.raises(InvalidRequestError, match="fetches no URLs"):
        loaded("https://example.com/a.wav")
    with pytest.raises(InvalidRequestError, match="must be a data: URI"):
        loaded("ftp://example.com/a.wav", allow_urls=True)


def test_what_is_asked_and_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    cookie = b"Set-Cookie: a=b\r\nLocation: /b?c=%C3%A4\r\nContent-Length: 0\r\n\r\n"

    async def test(server: RawServer) -> None:
        changes: dict[str, Any] = {"allow_urls": True, "allowed_networks": LOOPBACK}
        url = server.url("/a b/ä?d=e f#g").replace("http:", "HTTP:")
        assert await loading(url, **changes) == BODY
        first, second = server.requests
        assert first.startswith("GET /a%20b/%C3%A4?d=e%20f HTTP/1.1\r\n")
        assert f"Host: 127.0.0.1:{server.port}\r\n" in first
        assert "Cookie" not in second
        assert "Authorization" not in first

    served(
        {
            "/a%20b/%C3%A4?d=e%20f": said(b"HTTP/1.1 302 Found\r\n" + cookie),
            "/b?c=%C3%A4": ok(BODY),
        },
        test,
    )


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
def test_no_spelling_of_a_private_address_is_connected_to(host: str) -> None:
    async def test(server: RawServer) -> None:
        with pytest.raises(InvalidRequestError, match="its address is not public"):
            await loading(server.url("/", host), allow_urls=True)
        assert server.num_connections == 0

    served({"/": ok(BODY)}, test)


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


def test_a_name_is_resolved_once_and_the_checked_address_is_used() -> None:
    """A name that changes its mind between check and use (rebinding) has nothing to change."""
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.2" if len(asked) == 1 else "127.0.0.1"]

    async def test(server: RawServer) -> None:
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

    served({"/": ok(BODY)}, test)


def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    async def test(server: RawServer) -> bytes:
        return await loading(
            server.url("/", "a.example"),
            resolve=resolving(a_example=["127.0.0.2", "127.0.0.1"]),
            allow_urls=True,
            allowed_networks=LOOPBACK,
        )

    assert served({"/": ok(BODY)}, test) == BODY


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


def test_allowed_hosts() -> None:
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

    async def test(server: RawServer) -> None:
        for host in hosts:
            assert await loading(server.url("/", host), resolve=resolve, **changes) == BODY
        for host in ("b.example", "xb.example", "a.example.org", "x.a.example", "127.0.0.1"):
            with pytest.raises(InvalidRequestError, match=r"allowed hosts are a\.example"):
                await loading(server.url("/", host), resolve=resolve, **changes)
        with pytest.raises(InvalidRequestError, match="allowed hosts are"):
            await loading(server.url("/away", "a.example"), resolve=resolve, **changes)
        assert server.num_connections == len(hosts) + 1

    served({"/": ok(BODY), "/away": moved("http://c.example/")}, test)


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


def test_certificates_are_verified_for_the_name_in_the_url() -> None:
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

    async def test(server: RawServer) -> None:
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

    served({"/": ok(BODY)}, test, ssl_context=mine)


def test_many_at_once_do_not_meet() -> None:
    async def test(server: RawServer) -> None:
        settings = ReferenceSettings(allow_urls=True, allowed_networks=LOOPBACK)
        loader = ReferenceLoader(settings)
        use = audio_use(settings)
        bodies = await asyncio.gather(*(loader.load(server.url(f"/{n}"), use) for n in range(20)))
        assert bodies == [b"%d" % n for n in range(20)]
        loader.close()

    served({f"/{n}": ok(b"%d" % n) for n in range(20)}, test)


def test_settings_come_from_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text('[references]\nallowed_networks = ["10.0.0.0/8", "fd00::/8"]\nmax_bytes = 5\n')
    environment = {
        "ANTIPHON_REFERENCES_ALLOW_URLS": "true",
        "ANTIPHON_REFERENCES_ALLOWED_HOSTS": "a.example, *.b.example",
        "ANTIPHON_REFERENCES_ALLOWED_MEDIA_PATH": "/media",
    }
    flags = {"references.timeout_s": 3.0}
    references = load_settings(flags, file=file, environment=environment).references
    assert references == ReferenceSettings(
        allow_urls=True,
        allowed_hosts=("a.example", "*.b.example"),
        allowed_networks=(ip_network("10.0.0.0/8"), ip_network("fd00::/8")),
        allowed_media_path=Path("/media"),
        max_bytes=5,
        timeout_s=3.0,
    )
    with pytest.raises(ValueError, match="allowed_networks"):
        ReferenceSettings.model_validate({"allowed_networks": ["10.0.0.1/8"]})


# images


def test_errors_of_images_name_their_field_and_size(media: Path) -> None:
    settings = ReferenceSettings(allowed_media_path=media, allow_urls=True)
    use = image_use("input_reference", len(BODY))
    wrong: dict[str | bytes, str] = {
        BODY + b"!": "Reference image too large",
        "data:image/png;base64," + "A" * 2 * len(BODY): "Reference image too large",
        "cat.png": "Could not load reference image: it must be a data: URI",
        "http://127.0.0.1/cat.png": "Reference image may not be fetched from '127.0.0.1'",
        "http://[": "Could not fetch reference image: its URL is not valid",
        f"file://{media.parent}/secret.wav": "leads out of the directory",
    }

    async def test() -> None:
        loader = ReferenceLoader(settings)
        assert await loader.load(BODY, use) == BODY
        assert await loader.load(f"file://{media}/{quote('ä b.wav')}", use) == BODY
        for reference, message in wrong.items():
            with pytest.raises(InvalidRequestError, match=message) as refused:
                await loader.load(reference, use)
            assert refused.value.param == "input_reference"
        loader.close()

    asyncio.run(test())
