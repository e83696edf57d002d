"""Owners: whose key it is decides what is heard, listed and deleted; nothing of others shows."""

import sqlite3
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.datastructures import Headers
from websockets.sync.client import connect

from antiphon.api.middleware.keys import KeyRing, hashed
from antiphon.config import DataSettings, ModelSettings, ServerSettings, Settings
from antiphon.errors import SettingsError
from antiphon.storage.voice_database import SCHEMA
from tests.api.middleware.test_keys import bearing
from tests.recordings import wav
from tests.servers import RunningServer, start_server, wait_until
from tests.sockets import Client as SocketClient

VOICES = "/v1/audio/voices"
CONSENTS = "/v1/audio/voice_consents"
SPEECH = "/v1/audio/speech"
JOBS = "/v1/audio/speech/jobs"
KEYS = (
    f"{hashed('ann-key')} owner=ann",
    "ann-next owner=ann",
    "bob-key owner=bob",
    "ops-key owner=ops scope=admin",
    "plain-key",
)
SPOKEN = {"input": "Hello.", "max_new_tokens": 4, "response_format": "pcm", "seed": 1}
Client = Callable[[str | None], httpx.Client]


@pytest.fixture(scope="module")
def server(
    checkpoint: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Generator[RunningServer, None, None]:
    settings = Settings(
        model=ModelSettings(source=str(checkpoint("tiny", "base")), device="cpu", max_slots=4),
        data=DataSettings(dir=tmp_path_factory.mktemp("data"), min_free_mib=0),
        server=ServerSettings(api_keys=KEYS, log_format="json"),
    )
    with start_server(settings) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Generator[Client, None, None]:
    opened: list[httpx.Client] = []

    def of(key: str | None) -> httpx.Client:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        opened.append(httpx.Client(base_url=server.base_url, headers=headers, timeout=60))
        return opened[-1]

    yield of
    admin = of("ops-key")
    for voice in admin.get(VOICES).json()["uploaded_voices"]:
        assert admin.delete(f"{VOICES}/{voice['id']}").status_code == 200
    for job in admin.get(JOBS, params={"limit": 100}).json()["data"]:
        assert admin.delete(f"{JOBS}/{job['id']}").status_code == 200
    for each in opened:
        each.close()


def uploaded(client: httpx.Client, name: str, seed: int = 0, **fields: str) -> dict[str, Any]:
    files = {"audio_sample": ("a.wav", wav(seed=seed))}
    answer = client.post(VOICES, data={"name": name, **fields}, files=files)
    assert answer.status_code == 200, answer.text
    voice: dict[str, Any] = answer.json()
    return voice


def names(client: httpx.Client) -> list[str]:
    listed: list[dict[str, Any]] = client.get(VOICES).json()["uploaded_voices"]
    return sorted(voice["name"] for voice in listed)


def test_a_voice_is_its_owners(client: Client) -> None:
    ann, bob, plain = client("ann-key"), client("bob-key"), client("plain-key")
    voice = uploaded(ann, "Mine")
    assert (names(ann), names(bob), names(plain)) == (["Mine"], [], [])
    for stranger in (bob, plain):
        for name in ("mine", voice["id"]):
            for answer in (
                stranger.get(f"{VOICES}/{name}"),
                stranger.delete(f"{VOICES}/{name}"),
                stranger.post(SPEECH, json={**SPOKEN, "voice": name}),
            ):
                assert answer.status_code == 404
                assert answer.json()["error"]["code"] == "voice_not_found"
                assert "Mine" not in answer.text
        flat = stranger.get("/v1/audio/speech/voices").text + stranger.get("/v1/voices").text
        assert "Mine" not in flat
    for key in ("ann-key", "ann-next"):
        for name in ("mine", voice["id"]):
            spoken = client(key).post(SPEECH, json={**SPOKEN, "voice": name})
            assert spoken.status_code == 200, spoken.text
    assert client("ann-next").delete(f"{VOICES}/Mine").status_code == 200
    assert names(ann) == []


def test_a_websocket_speaks_with_its_owners_voices(client: Client, server: RunningServer) -> None:
    uploaded(client("ann-key"), "Mine")
    heard = {}
    for key, last in (("ann-key", "session.done"), ("bob-key", "error")):
        headers = {"Authorization": f"Bearer {key}"}
        address = f"ws://127.0.0.1:{server.port}/v1/audio/speech/stream"
        with connect(address, additional_headers=headers, proxy=None) as socket:
            talk = SocketClient(socket)
            talk.send("session.config", voice="mine", response_format="pcm", max_new_tokens=4)
            talk.send("input.text", text="Hello.")
            talk.send("input.done")
            heard[key] = talk.until(last)
    assert any(isinstance(each, bytes) for each in heard["ann-key"])
    assert not any(isinstance(each, bytes) for each in heard["bob-key"])
    assert "voice_not_found" in str(heard["bob-key"])


def test_two_owners_may_have_voices_of_one_name(client: Client) -> None:
    ann, bob = client("ann-key"), client("bob-key")
    one = uploaded(ann, "Same", seed=1, ref_text="One.")
    two = uploaded(bob, "same", seed=2, ref_text="Quite another.")
    assert one["id"] != two["id"]
    heard = [each.post(SPEECH, json={**SPOKEN, "voice": "SAME"}).content for each in (ann, bob)]
    assert heard[0] != heard[1], "each hears its own"
    assert ann.delete(f"{VOICES}/same").json()["id"] == one["id"]
    assert names(bob) == ["same"]


def test_what_models_have_heard_is_kept_apart(client: Client, server: RunningServer) -> None:
    """The same recording of two owners: nobody can tell that the other has it, too."""
    prepared = server.state.settings.data.folder / "prepared"
    uploaded(client("ann-key"), "Own", seed=3)
    num_before = len(list(prepared.iterdir()))
    uploaded(client("bob-key"), "Own", seed=3)
    assert len(list(prepared.iterdir())) == num_before + 1


def test_voices_without_an_owner_are_everybodys(client: Client) -> None:
    plain, ann = client("plain-key"), client("ann-key")
    uploaded(plain, "Shared")
    assert names(ann) == ["Shared"]
    assert ann.post(SPEECH, json={**SPOKEN, "voice": "shared"}).status_code == 200
    refused = ann.delete(f"{VOICES}/Shared")
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "permission_denied"
    uploaded(ann, "Shared", seed=9)  # her own goes before it
    assert names(ann) == ["Shared", "Shared"]
    assert ann.delete(f"{VOICES}/Shared").status_code == 200
    assert names(ann) == ["Shared"]
    open_list = client(None).get(VOICES).json()
    assert "uploaded_voices" not in open_list
    assert "Shared" in [voice["name"] for voice in open_list["voices"]]
    assert plain.delete(f"{VOICES}/Shared").status_code == 200


def test_an_open_list_shows_no_voice_that_has_an_owner(client: Client) -> None:
    uploaded(client("ann-key"), "Hidden")
    assert "Hidden" not in client(None).get(VOICES).text


def test_an_admin_sees_and_deletes_all(client: Client) -> None:
    ann, admin = client("ann-key"), client("ops-key")
    voice = uploaded(ann, "Mine")
    (listed,) = admin.get(VOICES).json()["uploaded_voices"]
    assert (listed["name"], listed["owner"]) == ("Mine", "ann")
    assert admin.delete(f"{VOICES}/Mine").status_code == 404, "names are not unique: by its id"
    assert admin.delete(f"{VOICES}/{voice['id']}").status_code == 200
    assert names(ann) == []


def test_consents_are_their_owners(client: Client) -> None:
    ann, bob, admin = client("ann-key"), client("bob-key"), client("ops-key")
    form = {"name": "label", "language": "en"}
    files = {"recording": ("a.wav", wav())}
    id = ann.post(CONSENTS, data=form, files=files).json()["id"]
    assert [each["id"] for each in ann.get(CONSENTS).json()["data"]] == [id]
    assert bob.get(CONSENTS).json()["data"] == []
    for answer in (
        bob.get(f"{CONSENTS}/{id}"),
        bob.post(f"{CONSENTS}/{id}", data={"name": "other"}),
        bob.delete(f"{CONSENTS}/{id}"),
        bob.post(
            VOICES,
            data={"name": "v", "consent": id},
            files={"audio_sample": ("a.wav", wav())},
        ),
    ):
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "consent_not_found"
    uploaded(client("ann-next"), "v", consent=id)
    assert [each["id"] for each in admin.get(CONSENTS).json()["data"]] == [id]
    assert admin.delete(f"{CONSENTS}/{id}").status_code == 200


def test_jobs_are_their_owners_and_speak_with_their_voices(client: Client) -> None:
    ann, bob, admin = client("ann-key"), client("bob-key"), client("ops-key")
    uploaded(ann, "Reader", seed=4)
    body = {**SPOKEN, "voice": "reader"}
    for stranger in (bob, admin):
        assert stranger.post(JOBS, json=body).status_code == 404
    id = ann.post(JOBS, json=body).json()["id"]
    wait_until(lambda: ann.get(f"{JOBS}/{id}").json()["status"] in ("completed", "failed"))
    assert ann.get(f"{JOBS}/{id}").json()["status"] == "completed"
    spoken = ann.post(SPEECH, json={**body, "stream": False}).content
    assert ann.get(f"{JOBS}/{id}/content").content == spoken
    assert bob.get(JOBS).json()["data"] == []
    for method, path in [
        *(("GET", each) for each in ("", "/events", "/content", "/content/0")),
        *(("POST", each) for each in ("/pause", "/resume", "/cancel")),
        ("DELETE", ""),
    ]:
        answer = bob.request(method, f"{JOBS}/{id}{path}")
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "job_not_found"
    assert [job["id"] for job in admin.get(JOBS).json()["data"]] == [id]
    assert admin.get(f"{JOBS}/{id}/content").content == spoken


def test_logs_and_metrics_name_the_owner_and_never_the_key(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="antiphon.requests"):
        client("ann-next").get(JOBS)
        client("plain-key").get(JOBS)
        wait_until(lambda: len(caplog.records) == 2)  # each follows its answer
    owners = [vars(record)["fields"]["owner"] for record in caplog.records]
    assert owners == ["ann", None]
    text = client("ops-key").get("/metrics").text
    assert 'antiphon_owner_requests_total{owner="ann"}' in text
    for key in KEYS:
        for place in (text, caplog.text):
            assert key.partition(" ")[0] not in place


def test_two_keys_of_one_owner_are_one_caller() -> None:
    ring = KeyRing(KEYS)
    assert ring.owner(bearing("ann-key")) == ring.owner(bearing("ann-next")) == "ann"
    assert ring.caller(bearing("ops-key")).is_admin
    assert not ring.caller(bearing("ann-key")).is_admin
    assert ring.caller(bearing("wrong")) == ring.caller(Headers())
    assert ring.caller(Headers()).owner is None
    assert not ring.caller(Headers()).is_admin


@pytest.mark.parametrize(
    "line",
    ["k owner=", "k owner=a/b", "k owner=ä", "k scope=all", "k role=admin", "sha256:00 secret2"],
    ids=ascii,
)
def test_what_is_wrong_after_a_key_is_told_without_it(line: str) -> None:
    with pytest.raises(SettingsError, match="api_keys") as caught:
        KeyRing([line])
    assert "secret2" not in caught.value.message


def test_one_key_has_one_owner() -> None:
    with pytest.raises(SettingsError, match="two owners"):
        KeyRing(["k owner=ann", "k owner=bob"])
    assert KeyRing(["k owner=ann", "k owner=ann"])


def test_what_was_kept_before_there_were_owners_is_everybodys(
    checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    model = ModelSettings(source=str(checkpoint("tiny", "base")), device="cpu", max_slots=2)
    data = DataSettings(dir=tmp_path, min_free_mib=0)
    with (
        start_server(Settings(model=model, data=data)) as server,
        httpx.Client(base_url=server.base_url, timeout=60) as one,
    ):
        uploaded(one, "Old")
    _as_first_layout(tmp_path / SCHEMA.file_name)
    settings = Settings(model=model, data=data, server=ServerSettings(api_keys=KEYS))
    headers = {"Authorization": "Bearer ann-key"}
    with (
        start_server(settings) as server,
        httpx.Client(base_url=server.base_url, headers=headers, timeout=60) as ann,
    ):
        assert names(ann) == ["Old"]
        assert ann.post(SPEECH, json={**SPOKEN, "voice": "old"}).status_code == 200
        assert ann.delete(f"{VOICES}/Old").status_code == 403


def _as_first_layout(file: Path) -> None:
    db = sqlite3.connect(file)
    with db:
        db.execute("ALTER TABLE voices RENAME TO new_voices")
        db.execute("""CREATE TABLE voices (
            id TEXT PRIMARY KEY, name TEXT NOT NULL, name_key TEXT NOT NULL UNIQUE,
            created_s INTEGER NOT NULL, kind TEXT NOT NULL, media_type TEXT NOT NULL,
            num_bytes INTEGER NOT NULL, content_hash TEXT NOT NULL,
            consent TEXT, ref_text TEXT, description TEXT)""")
        known = """id, name, name_key, created_s, kind, media_type, num_bytes, content_hash,
            consent, ref_text, description"""
        db.execute(f"INSERT INTO voices SELECT {known} FROM new_voices")
        db.execute("DROP TABLE new_voices")
        db.execute("DROP TABLE checksums")
        db.execute("DROP TABLE consents")
        db.execute("""CREATE TABLE consents (
            id TEXT PRIMARY KEY, name TEXT NOT NULL, language TEXT NOT NULL,
            created_s INTEGER NOT NULL, media_type TEXT NOT NULL, num_bytes INTEGER NOT NULL)""")
        db.execute("PRAGMA user_version = 1")
    db.close()
