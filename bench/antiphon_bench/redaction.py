"""Keeps keys out of reports and messages: those that were given, and what looks like one."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

HIDDEN = "(hidden)"
_SECRET_NAME = re.compile(
    r"(api|access|auth|private|subscription)[-_]?key|^key$|[-_]key$|secret|passw(or)?d|credential"
    r"|authorization|cookie|^(auth|token)$|[-_]token$",
    re.IGNORECASE,
)
_FLAG = re.compile(r"--?([\w-]+)(=.*)?", re.DOTALL)
_URL = re.compile(r"\b([a-z][a-z0-9+.-]*://)([^/?#\s'\"]*@)?([^?#\s'\"]*)(\?[^\s'\"]*)?")
_BEARER = re.compile(r"\b(Bearer)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_LONG = 6
"""Characters from which on a key is looked for within words, too."""


@dataclass(frozen=True, slots=True)
class Redaction:
    """Secrets that must not appear in output."""

    secrets: tuple[str, ...] = ()

    def text(self, text: str) -> str:
        """Return a text without the secrets, without queries of URLs, and without their users."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            edge = "" if len(secret) >= _LONG else r"\b"
            text = re.sub(f"{edge}{re.escape(secret)}{edge}", HIDDEN, text)
        text = _BEARER.sub(lambda found: f"{found[1]} {HIDDEN}", text)
        return _URL.sub(_plain_url, text)

    def value(self, value: Any) -> Any:
        """Return JSON without them, and without what names as ``api_key`` stand for."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                name: HIDDEN if _is_secret(name, each) else self.value(each)
                for name, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(each) for each in value]
        return value

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return a command line without them."""
        found, is_value_secret = [], False
        for argument in arguments:
            flag = _FLAG.fullmatch(argument)
            if is_value_secret:
                found.append(HIDDEN)
            elif flag is not None and flag[2] is not None:
                is_secret = _SECRET_NAME.search(flag[1]) is not None
                shown = HIDDEN if is_secret else self._member(flag[2][1:])
                found.append(f"--{flag[1]}={shown}")
            else:
                found.append(self._member(argument))
            is_value_secret = (
                not is_value_secret
                and flag is not None
                and flag[2] is None
                and _SECRET_NAME.search(flag[1]) is not None
            )
        return found

    def _member(self, argument: str) -> str:
        """Return an argument that may be ``KEY=VALUE``, where VALUE may be JSON."""
        name, is_member, value = argument.partition("=")
        if not is_member or not re.fullmatch(r"[\w.-]+", name):
            return self.text(argument)
        if _SECRET_NAME.search(name):
            return f"{name}={HIDDEN}"
        try:
            parsed = json.loads(value)
        except ValueError:
            return f"{name}={self.text(value)}"
        return (
            argument if (shown := self.value(parsed)) == parsed else f"{name}={json.dumps(shown)}"
        )


def plain_address(url: str) -> str:
    """Return an address without its secrets, whether it is valid or not."""
    address = url.partition("?")[0].partition("#")[0]
    return re.sub(r"(^|//)[^/]*@", r"\1", address)


def redaction_of(
    url: str = "", api_key: str | None = None, fields: Mapping[str, Any] | None = None
) -> Redaction:
    """Return the secrets of a server's address, key, and further members of requests."""
    found = {api_key or "", *_secrets_in(fields or {}), *_secrets_of_url(url)}
    return Redaction(tuple(sorted(found - {""})))


def _secrets_of_url(url: str) -> Iterator[str]:
    address, _, query = url.partition("?")
    yield from address.rpartition("@")[0].rpartition("/")[2].split(":")[1:]
    for pair in query.partition("#")[0].split("&"):
        value = pair.partition("=")[2]
        yield from (value, unquote(value))


def _secrets_in(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            if _is_secret(name, each):
                yield str(each)
            else:
                yield from _secrets_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _secrets_in(each)


def _is_secret(name: object, value: object) -> bool:
    """Whether a member is named as secrets are, and has what may be one."""
    is_scalar = isinstance(value, str | int | float) and not isinstance(value, bool)
    return is_scalar and _SECRET_NAME.search(str(name)) is not None


def _plain_url(found: re.Match[str]) -> str:
    query = f"?{HIDDEN}" if found[4] else ""
    return f"{found[1]}{found[3]}{query}"
