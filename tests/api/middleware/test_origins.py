"""Which pages may call, and by which names: what a browser can be made to send is not enough."""

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from antiphon.api.middleware.origins import Reach
from antiphon.config import ServerSettings, Settings
from tests.decoding import error_of
from tests.servers import TOY, RunningServer, server_of
from tests.sockets import connected

URL = "/v1/audio/speech"
OWN_PAGES = ("http://localhost:3000", "http://127.0.0.1", "http://192.168.1.2:80", "http://nas")
FOREIGN_PAGES = (
    *("https://evil.example", "http://198.51.101.7", "null", "http://[", "file://", ""),
    *("chrome-extension://abcdefghijklmnop", "moz-extension://a-b-c", "safari-web-extension://A"),
    *(
        "chrome-extension://localhost",
        "app://localhost:{port}",
        "chrome-extension://localhost:{port}",
    ),
)
"""The last two have the server's own address."""
OWN_NAMES = (
    "localhost:80",
    "a.localhost",
    "127.0.0.1",
    "[::1]:8000",
    "8.8.8.8",
    "nas.local",
    "Nas",
)
FOREIGN_NAMES = ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "[::1")


@pytest.mark.parametrize("host", OWN_NAMES)
def test_names_that_no_stranger_can_own_are_answered(client: httpx.Client, host: str) -> None:
    assert client.get("/v1/models", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", FOREIGN_NAMES)
def test_a_name_that_was_rebound_to_us_is_not_ours(client: httpx.Client, host: str) -> None:
    headers = {"Host": host, "Origin": f"http://{host}"}
    error_of(client.get("/v1/models", headers=headers), 403)
    error_of(client.get("/", headers=headers), 403)
    error_of(client.post(URL, headers=headers, json={"input": "Hi."}), 403)
    assert client.get("/health", headers=headers).status_code == 200, "probes are answered"


@pytest.mark.parametrize("origin", FOREIGN_PAGES)
def test_a_foreign_page_can_ask_for_nothing(
    server: RunningServer, client: httpx.Client, origin: str
) -> None:
    """As browsers do without asking first: plain text or a form, whatever is in it."""
    origin = origin.replace("{port}", str(server.port)).replace("localhost:", "127.0.0.1:")
    for content_type in ("text/plain", "application/json", "multipart/form-data; boundary=x"):
        headers = {"Origin": origin, "Content-Type": content_type}
        for path in (URL, "/v1/audio/voices", "/v1/speak", "/v1/text-to-speech/sine"):
            error_of(client.post(path, headers=headers, content=b'{"input": "Hi."}'), 403)
        error_of(client.delete("/v1/audio/voices/ann", headers=headers), 403)
    assert client.options(URL, headers=preflight(origin)).status_code == 400
    with pytest.raises(InvalidStatus), connected(server, "/v1/realtime", origin=origin):
        pass


@pytest.mark.parametrize("origin", OWN_PAGES)
def test_pages_of_ones_own_network_may_call(
    server: RunningServer, client: httpx.Client, origin: str
) -> None:
    answer = client.post(URL, headers={"Origin": origin}, json={"input": "Hi."})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == origin
    assert client.options(URL, headers=preflight(origin)).status_code == 200
    with connected(server, "/v1/realtime", origin=origin):
        pass


def preflight(origin: str) -> dict[str, str]:
    return {"Origin": origin, "Access-Control-Request-Method": "POST"}


guarded = server_of(Settings(model=TOY.model, server=ServerSettings(api_keys=("sesame",))))


def test_where_a_key_is_asked_for_the_key_decides(guarded: RunningServer) -> None:
    headers = {"Host": "speech.example", "Origin": "https://page.example"}
    with httpx.Client(base_url=guarded.base_url, headers=headers) as client:
        assert client.post(URL, json={"input": "Hi."}).status_code == 401
        key = {"Authorization": "Bearer sesame"}
        answer = client.post(URL, json={"input": "Hi."}, headers=key)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "*"


def test_what_is_named_is_added_to_ones_own_names_and_replaces_ones_own_pages() -> None:
    settings = ServerSettings(
        host="speech.example",
        allowed_hosts=("*.House.example",),
        cors_origins=("https://page.example",),
    )
    for asks_for_keys in (False, True):
        reach = Reach.of(settings, asks_for_keys=asks_for_keys)
        for host in ("speech.example", "SPEECH.example.:80", "tts.house.example", *OWN_NAMES):
            assert reach.answers_to(host), host
        for host in ("house.example", *FOREIGN_NAMES):
            assert not reach.answers_to(host), host
        assert reach.admits("https://page.example")
        assert not any(map(reach.admits, (*FOREIGN_PAGES, *OWN_PAGES)))
    anyone = Reach.of(
        ServerSettings(allowed_hosts=("*",), cors_origins=("*",)), asks_for_keys=False
    )
    assert all(map(anyone.admits, FOREIGN_PAGES))
    assert anyone.answers_to("evil.example")


def test_an_extension_may_call_if_it_is_named() -> None:
    origin = "chrome-extension://abcdefghijklmnop"
    named = Reach.of(ServerSettings(cors_origins=(origin,)), asks_for_keys=False)
    assert named.admits(origin)
    assert not named.admits("chrome-extension://other")
    assert not Reach.of(ServerSettings(), asks_for_keys=False).admits(origin)
    assert Reach.of(ServerSettings(), asks_for_keys=True).admits(origin), "it needs a key"
