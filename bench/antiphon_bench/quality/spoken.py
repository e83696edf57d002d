"""Speech to be judged that a server answers with, in the pieces in which it came."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from antiphon.errors import SettingsError
from antiphon_bench.bodies import BYTES_PER_SAMPLE, DEFAULT_SAMPLE_RATE_HZ, BodyError
from antiphon_bench.body_kinds import media_type, open_body
from antiphon_bench.quality.recording import SpeechRecording
from antiphon_bench.redaction import redaction_of

_TIMEOUT_S = 600.0
_PIECE_BYTES = 1 << 20
_MAX_ERROR_BYTES = 500


def spoken_by(
    url: str,
    texts: Mapping[str, str],
    *,
    fields: Mapping[str, Any],
    language: str = "en",
    api_key: str | None = None,
    told: Callable[[str, int, int], None] = lambda *_: None,
) -> list[SpeechRecording]:
    """Request speech for each text from a server and return it in the pieces in which it came.

    Args:
        url: URL of the server, with or without ``/v1``.
        texts: texts by name.
        fields: further members of each request.
        language: language of the texts.
        api_key: API key of the server; ``None``: no key.
        told: callback with the current step, the number of finished texts, and their total.

    Raises:
        SettingsError: the server cannot be reached, refuses, or answers with something else than
            whole bare samples. No key is in its message.
    """
    if fields.get("response_format", "pcm") != "pcm":
        raise SettingsError("Bare samples are judged: response_format cannot be chosen.")
    hide = redaction_of(url, api_key, fields).text
    found = []
    for number, (name, text) in enumerate(texts.items(), 1):
        body = {"response_format": "pcm", **fields, "input": text}
        try:
            pieces, rate_hz = _asked(_endpoint(url), body, api_key)
        except urllib.error.HTTPError as error:
            with error:
                answer = error.read(_MAX_ERROR_BYTES).decode(errors="replace")
            raise SettingsError(hide(f"{url}: {name}: {error}: {answer}")) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise SettingsError(hide(f"{url}: {name}: {error}")) from None
        except BodyError as error:
            raise SettingsError(hide(f"{url}: {name}: {error.message}.")) from None
        found.append(SpeechRecording(name, tuple(pieces), rate_hz, text, language))
        told("texts", number, len(texts))
    return found


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    base = parts.path.rstrip("/").removesuffix("/v1")
    return parts._replace(path=f"{base}/v1/audio/speech").geturl()


def _asked(
    url: str, body: Mapping[str, Any], api_key: str | None
) -> tuple[list[NDArray[np.float64]], int]:
    """Return the pieces of one answer, mono, and their rate in Hz."""
    headers = {"Content-Type": "application/json"}
    if api_key is not None:
        headers["Authorization"] = f"Bearer {api_key}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
        received = response.headers
        content_type = received.get("Content-Type", "")
        _, parameters = media_type(content_type)
        rate_hz = int(received.get("X-Sample-Rate", parameters.get("rate", DEFAULT_SAMPLE_RATE_HZ)))
        channels = int(received.get("X-Channels", parameters.get("channels", 1)))
        if rate_hz < 1 or channels < 1:
            raise BodyError(f"A rate of {rate_hz} Hz and {channels} channels make no audio")
        judged = open_body("pcm", content_type, channels)
        if content_type.startswith("text/event-stream"):
            raise BodyError("Events came in the place of bare samples")
        pieces = []
        for piece in iter(lambda: response.read1(_PIECE_BYTES), b""):
            judged.feed(piece)
            pieces.append(piece)
        judged.end()
    length = received.get("Content-Length")
    if length is not None and sum(map(len, pieces)) < int(length):
        raise BodyError("The connection ended before the answer did")
    return _samples(pieces, channels), rate_hz


def _samples(pieces: Sequence[bytes], channels: int) -> list[NDArray[np.float64]]:
    """Return pieces as mono samples in [-1, 1]; what is cut within one goes to the next piece."""
    found, odd, size = [], b"", BYTES_PER_SAMPLE * channels
    for piece in pieces:
        data = odd + piece
        whole = len(data) // size * size
        odd = data[whole:]
        if whole:
            moments = np.frombuffer(data[:whole], "<i2").reshape(-1, channels)
            found.append(moments.mean(axis=1) / 32768)
    return found
