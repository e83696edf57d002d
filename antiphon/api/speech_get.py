"""GET /v1/audio/speech: speech from a URL, for players, and signed URLs for those without keys.

Equal URLs give equal audio: without a seed, one is derived from the URL, so that answers may be
cached. Whole files are kept for some minutes: the parts that a player asks for one after another
come from one generation, which on a GPU need not equal the next one in every bit.
"""

import hashlib
import time
from collections.abc import Hashable, Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.bodies import JsonRoute
from antiphon.api.errors import validated
from antiphon.api.http_ranges import requested_part
from antiphon.api.middleware.connection_limits import SPEECH_PATH
from antiphon.api.middleware.keys import caller_of
from antiphon.api.middleware.memory_budget import FinishedFile
from antiphon.api.middleware.signed_urls import EXPIRES, SIGNING_PARAMETERS, is_signed, signed_query
from antiphon.api.schemas.error import ErrorBody
from antiphon.api.schemas.field_rules import check_known
from antiphon.api.schemas.speech import SpeechBody
from antiphon.api.speech import RESPONSES, create_speech
from antiphon.api.state import Server, ServerState, SpeechId
from antiphon.api.streaming import WholeResponse
from antiphon.contracts.sampling import PARAMETERS
from antiphon.errors import InvalidRequestError, invalid, missing

router = APIRouter(tags=["speech"], route_class=JsonRoute)

FIELDS = (
    *("input", "model", "voice", "response_format", "speed", "sample_rate", "language"),
    *("instructions", "stream", "seed", "do_sample"),
    *(each.name for each in PARAMETERS if each.name in SpeechBody.model_fields),
    *("max_new_tokens", "min_tokens", "ignore_eos", "normalize", "loudness_lufs"),
)
"""Fields of a speech request that a URL may have: those of any model that are no objects."""
MAX_AGE_S = 3600
_MAX_EXPIRES_IN_S = 30 * 24 * 3600
_MAX_CHARACTERS = 4096
"""Of a text in a URL that is made here: players and proxies refuse long ones."""
_FROM_START = ("", "bytes=0-")
_SEED_BYTES = 7
_DELIVERY = ("response_format", "stream")


def _parameters() -> list[dict[str, Any]]:
    schemas = SpeechBody.model_json_schema(ref_template="#/components/schemas/{model}")
    found = []
    for name in FIELDS:
        field = dict(schemas["properties"][name])
        description = field.pop("description", "")
        if "anyOf" in field:
            texts = [each for each in field["anyOf"] if each.get("type") not in ("null", "object")]
            field["anyOf"] = texts
        found.append(
            {
                "name": name,
                "in": "query",
                "required": name == "input",
                "description": description,
                "schema": {key: field[key] for key in field if key not in ("title", "default")},
            }
        )
    return found


@router.get(
    SPEECH_PATH,
    response_class=Response,
    responses={**RESPONSES, 206: {"description": "The part that 'Range' asks for."}},
    openapi_extra={"parameters": _parameters()},
)
async def get_speech(request: Request, server: Server, speech_id: SpeechId) -> Response:
    """Speak the text of a URL, for ``<audio>``, media players and loudspeakers.

    The query has fields of the POST request. Audio streams as it is made; with ``stream=false``, or
    if ``Range`` asks for a part, the whole file is made first and has a length. Where API keys are
    required, the URL needs a signature.
    """
    fields = _fields(request)
    body = validated(SpeechBody, fields, "query")
    is_part = request.headers.get("Range", "").replace(" ", "") not in _FROM_START
    is_whole = body.stream is False or (body.stream is None and is_part)
    seed = _seed(fields) if body.seed is None else body.seed
    body = body.model_copy(update={"stream": False if is_whole else None, "seed": seed})
    response = await create_speech(body, server, speech_id)
    if isinstance(response, WholeResponse):
        # A kept file is sent only while its voice may be used.
        await server.speech.check_voice(await server.speech.routed(body.to_domain(speech_id)))
        key = (caller_of(request.scope, server.guards.keys), body.model_dump_json())
        _deliver_part(response, request, server, key)
    max_age_s = MAX_AGE_S
    if server.guards.keys and is_signed(request.scope):
        max_age_s = min(max_age_s, int(request.query_params[EXPIRES]) - int(time.time()))
    response.headers["Cache-Control"] = f"private, max-age={max_age_s}"
    return response


class SpeechUrl(BaseModel):
    """A URL of speech.

    Attributes:
        url: absolute URL.
        expires_at: Unix time in seconds; ``None``: never, as the server requires no keys.
    """

    url: str
    expires_at: int | None


@router.post(
    f"{SPEECH_PATH}/url", responses={status: {"model": ErrorBody} for status in (400, 401)}
)
async def create_speech_url(
    body: dict[str, Any],
    request: Request,
    server: Server,
    speech_id: SpeechId,
) -> SpeechUrl:
    """Return a URL of speech that needs no key until it expires.

    The body has the fields of the URL, and ``expires_in_s``: 1 to 2592000 seconds, by default 3600.
    Texts have at most 4096 characters.
    """
    check_known(body, (*FIELDS, *_Lifetime.model_fields))
    for name, value in body.items():
        if isinstance(value, str) and len(value) > _MAX_CHARACTERS:
            raise invalid(
                name,
                f"{len(value)} characters, and a URL takes at most {_MAX_CHARACTERS}. Send a POST"
                " request for speech instead",
            )
    given = body.pop("expires_in_s", None)
    lifetime = validated(_Lifetime, {} if given is None else {"expires_in_s": given})
    checked = validated(SpeechBody, body)
    await server.speech.check_voice(await server.speech.routed(checked.to_domain(speech_id)))
    given = checked.model_dump(mode="json", include=checked.model_fields_set, exclude_none=True)
    fields = {name: _spelled(value) for name, value in given.items()}
    keys, base = server.guards.keys, f"{str(request.base_url).rstrip('/')}{SPEECH_PATH}"
    if not keys:
        return SpeechUrl(url=f"{base}?{urlencode(fields)}", expires_at=None)
    if keys.url_signing_key is None:
        raise InvalidRequestError(
            "Signed URLs need the setting server.url_signing_key, which is unset."
        )
    key_id = keys.id(request.headers)
    assert key_id is not None, "a key is required here"
    expires_s = int(time.time()) + lifetime.expires_in_s
    query = signed_query(fields, key_id, expires_s, keys.url_signing_key)
    return SpeechUrl(url=f"{base}?{query}", expires_at=expires_s)


class _Lifetime(BaseModel):
    expires_in_s: Annotated[int, Field(ge=1, le=_MAX_EXPIRES_IN_S)] = 3600


def _spelled(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _fields(request: Request) -> dict[str, str]:
    """Return the fields of a query, without its signature; raises InvalidRequestError."""
    pairs = request.query_params.multi_items()
    fields = {name: value for name, value in pairs if name not in SIGNING_PARAMETERS}
    check_known(fields, FIELDS)
    for name in fields:
        if len(request.query_params.getlist(name)) > 1:
            raise invalid(name, "it is given twice")
    if not fields.get("input"):
        raise missing("input")
    return {name: value for name, value in fields.items() if value}


def _seed(fields: Mapping[str, str]) -> int:
    spoken = sorted(item for item in fields.items() if item[0] not in _DELIVERY)
    digest = hashlib.sha256(urlencode(spoken).encode()).digest()
    return int.from_bytes(digest[:_SEED_BYTES])


def _deliver_part(
    response: WholeResponse, request: Request, server: ServerState, key: Hashable
) -> None:
    """Have a response deliver the part of its file that a request asks for; the file is kept."""
    collect = response.collect

    async def make() -> FinishedFile:
        pieces, headers = await collect()
        content, etag = await server.encoders.run(_joined, pieces)
        return FinishedFile(content, headers, etag)

    async def collect_part() -> tuple[list[bytes], dict[str, str]]:
        file = await server.guards.memory.kept_files.get(key, make)
        num_bytes = len(file.content)
        headers = {**file.headers, "ETag": f'"{file.etag}"', "Accept-Ranges": "bytes"}
        if (part := requested_part(num_bytes, file.etag, request)) is None:
            return [file.content], headers
        start, stop = part
        response.status_code = 206
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{num_bytes}"
        return [file.content[start:stop]], headers

    response.collect = collect_part


def _joined(pieces: list[bytes]) -> tuple[bytes, str]:
    content = b"".join(pieces)
    return content, hashlib.sha256(content).hexdigest()[:32]
