"""Megabytes of every kind on every route: no request keeps the others waiting."""

import json
import random
import re
from collections.abc import Generator
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import WebSocketRoute
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from antiphon.api.app import create_app
from antiphon.config import DataSettings, ModelSettings, ModelsSettings, Settings
from tests.api.fuzzing import Operation, document, operations
from tests.chaos.largest_bodies import JSON, largest_bodies
from tests.chaos.long_messages import SCRIPTS
from tests.chaos.long_texts import NUM_BYTES, ODD_MEMBERS, TEXTS, LongBody, bodies
from tests.chaos.pauses import Attack, Watched, watched
from tests.chaos.siege import SCALE
from tests.chaos.watched import MAX_PAUSE_S
from tests.families.causal_lm.random_checkpoint import make_checkpoint
from tests.servers import TOY

pytestmark = pytest.mark.slow  # some hundred requests of a megabyte each

APP = create_app(TOY)
OPERATIONS = [each for each in operations(document()) if each.json_schema is not None]
LENGTHS = (90_000, NUM_BYTES)
"""Of texts that are taken, where the settings are the default ones, and of those that are not."""
MIN_BODIES = 24
MIN_SHARE = 3
DEFAULTS = {
    "/v1/chat/completions": {
        "messages": [{"role": "user", "content": "Hi."}],
        "model": "chat",
        "max_tokens": 2,
    }
}
FORM_ROUTES = ["/v1/audio/speech", "/v1/videos", "/v1/audio/voices", "/v1/images/edits"]
JSON_ROUTES = [each.path for each in OPERATIONS if each.path not in FORM_ROUTES]
JOB_ROUTES = ("/v1/audio/speech/jobs", "/v1/videos")
LONG_MEMBERS = ("input", "prompt", "messages", "text", "odd")
LEAVES_AFTER_S = 1.0
MAX_RECEIVED = 20


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[Watched, None, None]:
    folder = tmp_path_factory.mktemp("pauses")
    checkpoint = folder / "chat"
    checkpoint.mkdir()
    make_checkpoint(checkpoint, size="tiny", task="qwen2")
    more = (
        ModelSettings(source=str(checkpoint), name="chat", device="cpu"),
        ModelSettings(source="hibari", name="hibari", device="cpu"),
    )
    settings = Settings(
        model=ModelSettings(source="toy", device="cpu"),
        models=ModelsSettings(more=more),
        data=DataSettings(dir=Path(folder / "data")),
    )
    with watched(settings) as running:
        yield running


@pytest.fixture
def server(running: Watched) -> Generator[Watched, None, None]:
    """Delete the jobs of each test, which would speak for minutes, beside all later attacks."""
    yield running
    for path in JOB_ROUTES:
        jobs = httpx.get(running.url + path, params={"limit": 100}, timeout=60).json()["data"]
        for job in jobs:
            httpx.delete(f"{running.url}{path}/{job['id']}", timeout=60)


def post(server: Watched, path: str, content: bytes, media_type: str = JSON) -> None:
    """Send a body; leave when the answer has begun, or does not begin."""
    timeout = httpx.Timeout(60, read=LEAVES_AFTER_S)
    headers = {"Content-Type": media_type}
    try:
        with httpx.stream(
            "POST", server.url + path, content=content, headers=headers, timeout=timeout
        ) as response:
            assert response.status_code != 500
            next(response.iter_raw(), None)
    except httpx.TransportError:
        pass


def talk(server: Watched, path: str, sent: list[str]) -> None:
    """Send messages; leave when there has been an answer, or there is none."""
    url = f"ws://127.0.0.1:{server.port}{path}"
    with connect(url, max_size=None, proxy=None, close_timeout=LEAVES_AFTER_S) as connection:
        try:
            for message in sent:
                connection.send(message)
            for _ in range(MAX_RECEIVED):
                connection.recv(timeout=LEAVES_AFTER_S / 2)
        except (TimeoutError, ConnectionClosed):
            pass


def chosen(operation: Operation) -> list[LongBody]:
    """Return the bodies that are sent to an operation, others for each but the same each time."""
    every = list(bodies(operation, DEFAULTS.get(operation.path, {}), LENGTHS))
    num = max(MIN_BODIES, round(SCALE * len(every)))
    return random.Random(operation.name).sample(every, min(num, len(every)))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_no_body_stops_the_server(server: Watched, operation: Operation) -> None:
    path = operation.path.replace("{voice_id}", "default")
    assert not server.long_pauses(
        (body.name, partial(post, server, path, body.content())) for body in chosen(operation)
    )


def largest_of(path: str, name: str) -> list[tuple[LongBody, str]]:
    """Return the largest bodies that are sent to a route: its share, of all that its group gets."""
    group = FORM_ROUTES if path in FORM_ROUTES else JSON_ROUTES
    every = [each for each in largest_bodies(name) if each[1] == JSON or group is FORM_ROUTES]
    num = max(MIN_SHARE, ceil(len(every) / len(group)), round(SCALE * len(every)))
    first = num * (group.index(path) + LONG_MEMBERS.index(name))
    return [every[(first + each) % len(every)] for each in range(num)]


@pytest.mark.parametrize("path", [*FORM_ROUTES, *JSON_ROUTES])
def test_no_largest_body_stops_the_server(server: Watched, path: str) -> None:
    assert not server.long_pauses(
        (f"{name}: {body.name}", partial(post, server, path, body.content(), media_type))
        for name in LONG_MEMBERS
        for body, media_type in largest_of(path, name)
    )


@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, scripts in SCRIPTS.items() for name in scripts]
)
def test_no_message_stops_the_server(server: Watched, path: str, name: str) -> None:
    def attacks() -> Generator[tuple[str, Attack], None, None]:
        num_kinds = max(5, round(SCALE * len(TEXTS)))
        for kind in random.Random(path + name).sample(sorted(TEXTS), num_kinds):
            for length in LENGTHS:
                script = SCRIPTS[path][name](TEXTS[kind](length))
                sent = [json.dumps(message, ensure_ascii=False) for message in script]
                yield f"{length} bytes of {kind}", partial(talk, server, path, sent)

    assert not server.long_pauses(attacks())


@pytest.mark.parametrize("path", SCRIPTS)
def test_no_odd_message_stops_the_server(server: Watched, path: str) -> None:
    def attacks() -> Generator[tuple[str, Attack], None, None]:
        for name, member in ODD_MEMBERS.items():
            message = f'{{"type": "session.config", "text": "a", "odd": {member.decode()}}}'
            yield name, partial(talk, server, path, [message])

    assert not server.long_pauses(attacks())


def test_no_header_or_query_stops_the_server(server: Watched) -> None:
    names = ("Authorization", "Accept", "Cookie", "X-Request-Id", "Prefer", "xi-api-key", "Range")

    def ask(headers: dict[str, str]) -> None:
        for path in ("/v1/models", "/v2/voices?search=" + "%EF%B7%BA" * 900):
            httpx.get(server.url + path, headers=headers, timeout=60)

    assert not server.long_pauses(
        (f"{name}: {piece}", partial(ask, {name: piece * (8_000 // len(piece)) + "a"}))
        for name in names
        for piece in ("a", ",", ";q=0.", "a=b; ", "Bearer ")
    )


def test_a_pause_is_noticed(server: Watched) -> None:
    """The longer it is, the less the turns matter that the machine gives the thread that waits."""
    for doublings in range(0, 8, 2):
        found = server.held(20_000_000 << doublings)  # 0.2 s at first
        if min(found.values()) > MAX_PAUSE_S:
            return
    pytest.fail(f"a pause went unnoticed: {found}")


def test_every_websocket_has_a_script() -> None:
    known = [path.partition("?")[0] for path in SCRIPTS]
    routes: list[Any] = [each for each in APP.routes if isinstance(each, WebSocketRoute)]
    assert routes
    for route in routes:
        pattern = re.sub(r"\{\w+\}", "[^/]+", route.path)
        assert any(re.fullmatch(pattern, path) for path in known), route.path


def test_every_kind_of_text_is_sent() -> None:
    sent = {body.name for each in OPERATIONS for body in chosen(each)}
    assert all(any(name.endswith(kind) for name in sent) for kind in TEXTS)


@pytest.mark.parametrize("routes", [FORM_ROUTES, JSON_ROUTES])
@pytest.mark.parametrize("name", LONG_MEMBERS)
def test_every_largest_body_is_sent(routes: list[str], name: str) -> None:
    sent = {(body.name, kind) for path in routes for body, kind in largest_of(path, name)}
    every = {(body.name, kind) for body, kind in largest_bodies(name)}
    assert sent == {each for each in every if each[1] == JSON or routes is FORM_ROUTES}
