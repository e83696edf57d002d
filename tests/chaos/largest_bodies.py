"""Bodies of as many bytes as a server takes, of JSON and of both kinds of forms."""

from collections.abc import Callable, Generator, Mapping
from functools import partial

from antiphon.config import ServerSettings
from tests.chaos.long_texts import LongBody

MAX_BYTES = ServerSettings().max_body_bytes - 4096
"""Of a text; the rest is for what stands around it."""
_BOUNDARY = "limit"


def _of(piece: str | bytes, most: int = MAX_BYTES) -> Callable[[], bytes]:
    raw = piece.encode() if isinstance(piece, str) else piece
    return lambda: raw * (most // len(raw))


TEXTS: Mapping[str, Callable[[], bytes]] = {
    "word": _of("a"),
    "cjk": _of("你好。"),
    "accents": _of("a" * 50 + "é"),
    "emoji": _of("a你b😀"),
    "half of it": _of("a你b😀", MAX_BYTES // 2),
    "no UTF-8": _of(b"\xff"),
}
STRINGS: Mapping[str, Callable[[], bytes]] = {
    **TEXTS,
    "spaces": _of(" "),
    "recording": lambda: b"data:audio/wav;base64," + _of("UklGRiQAAABXQVZF", MAX_BYTES - 32)(),
    "long escapes": _of(rb"\u4f60"),
    "surrogates": _of(rb"\ud83d\ude00"),
    "half a pair": lambda: _of("a", MAX_BYTES - 6)() + rb"\ud83d",
    "half a pair of half": lambda: _of("a", MAX_BYTES // 2)() + rb"\ud83d",
    "half of escapes": _of(rb"\u4f60", MAX_BYTES // 2),
    "line breaks": lambda: rb"a\n" * 490_000 + _of("a", MAX_BYTES - 3 * 490_000)(),
    "open": lambda: _of("a")() + b"\\",
}
"""Contents of strings of JSON."""
QUOTED: Mapping[str, Callable[[], bytes]] = {
    **TEXTS,
    "escapes": _of("%E4%BD%A0"),
    "few escapes": lambda: _of("%41", 8_900_000)() + _of("a", MAX_BYTES - 8_900_000)(),
    "escapes and letters": _of("a%41", 11_000_000),
    "percent signs": _of("%"),
    "half escapes": _of("%zz", 8_900_000),
    "pluses": _of("+"),
    "fields": _of("&"),
    "names": _of("=a"),
}
"""Values of urlencoded forms."""


JSON, URLENCODED, MULTIPART = (
    "application/json",
    "application/x-www-form-urlencoded",
    f"multipart/form-data; boundary={_BOUNDARY}",
)


def largest_bodies(name: str) -> Generator[tuple[LongBody, str], None, None]:
    """Yield bodies with a long member of a name, and their media types."""
    for kind, text in STRINGS.items():
        yield LongBody(f"JSON {kind}", partial(_json, name, text)), JSON
    for kind, text in QUOTED.items():
        yield LongBody(f"urlencoded {kind}", partial(_urlencoded, name, text)), URLENCODED
    for kind, text in {**TEXTS, "lines": _of("\r\n--lim")}.items():
        for more in ("", '; filename="a.wav"'):
            content = partial(_multipart, name + '"' + more, text)
            yield LongBody(f"multipart {kind}{more}", content), MULTIPART


def _json(name: str, text: Callable[[], bytes]) -> bytes:
    member = b'"%s"' % text()
    if name == "messages":
        member = b'[{"role": "user", "content": %s}]' % member
    return b'{"%s": %s}' % (name.encode(), member)


def _urlencoded(name: str, text: Callable[[], bytes]) -> bytes:
    return name.encode() + b"=" + text()


def _multipart(name: str, text: Callable[[], bytes]) -> bytes:
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}\r\n\r\n'
    return head.encode() + text() + f"\r\n--{_BOUNDARY}--\r\n".encode()
