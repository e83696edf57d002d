"""API keys: what is accepted, where they are kept, and how they are made."""

import math
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from antiphon.api.middleware.failed_keys import FailedKeys
from antiphon.api.middleware.keys import KeyRing, hashed
from antiphon.api.middleware.limit_table import LocalLimitTable
from antiphon.config import LimitSettings, ServerSettings, Settings
from antiphon.errors import RateLimitError, SettingsError
from tests.decoding import error_of
from tests.servers import TOY, start_server


def bearing(key: str) -> Headers:
    return Headers(raw=[(b"authorization", b"Bearer " + key.encode())])


@given(st.text("abcdefgh-_9", min_size=1), st.text("abcdefgh-_9", min_size=1))
def test_a_hash_stands_for_its_key_alone(key: str, other: str) -> None:
    plain, hidden = KeyRing([key]), KeyRing([hashed(key)])
    assert plain.admits(bearing(key))
    assert hidden.admits(bearing(key))
    assert plain.owner(bearing(key)) == hidden.owner(bearing(key))
    assert hidden.admits(bearing(other)) == (other == key)
    assert not hidden.admits(bearing(hashed(key))), "whoever reads the file has no key"


def test_no_keys_ask_for_none() -> None:
    assert KeyRing([]).admits(Headers())
    assert KeyRing([]).owner(Headers()) is None


def test_keys_come_from_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# ours\n\n{hashed('one')}  # Ann\ntwo\n")
    ring = KeyRing.of(ServerSettings(api_keys=("three",), api_keys_file=file))
    for key in ("one", "two", "three"):
        assert ring.admits(bearing(key))
    assert not ring.admits(bearing("# ours"))
    assert len({ring.owner(bearing(key)) for key in ("one", "two", "three")}) == 3


@pytest.mark.parametrize("content", [None, "", "# nothing\n", "sha256:12\n", "\xff"])
def test_a_file_without_keys_opens_nothing(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_text(content, encoding="latin-1")
    with pytest.raises(SettingsError, match="api_keys"):
        KeyRing.of(ServerSettings(api_keys_file=file))


def test_a_server_knows_its_keys_by_their_hashes(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(hashed("sesame"))
    settings = Settings(model=TOY.model, server=ServerSettings(api_keys_file=file))
    with start_server(settings) as server, httpx.Client(base_url=server.base_url) as client:
        body = {"input": "Hello."}
        assert client.post("/v1/audio/speech", json=body).status_code == 401
        for key, status in (("sesame", 200), (hashed("sesame"), 401)):
            headers = {"Authorization": f"Bearer {key}"}
            response = client.post("/v1/audio/speech", json=body, headers=headers)
            assert response.status_code == status


def test_wrong_keys_are_counted_and_whoever_has_a_right_one_goes_on() -> None:
    settings = Settings(
        model=TOY.model,
        server=ServerSettings(api_keys=("sesame", "other")),
        limits=LimitSettings(key_failures_per_minute=3),
    )
    path = "/v1/audio/speech/jobs"
    with start_server(settings) as server, httpx.Client(base_url=server.base_url) as client:

        def status(key: str) -> int:
            return client.get(path, headers={"Authorization": f"Bearer {key}"}).status_code

        assert status("sesame") == 200
        assert [status("wrong") for _ in range(4)] == [401, 401, 401, 429]
        refused = client.get(path, headers={"xi-api-key": "wrong"})
        assert error_of(refused, 429)["code"] == "rate_limit_exceeded"
        assert int(refused.headers["retry-after"]) > 0
        assert status("other") == 429, "or guessing would go on"
        assert status("sesame") == 200
        assert client.get(path).status_code == 401, "no key is no guess"
        assert client.get("/health").status_code == 200


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(0, 2)), max_size=60))
def test_no_minute_has_more_guesses_than_are_allowed(tries: list[tuple[float, int]]) -> None:
    now_s, per_minute = 0.0, 4
    failed = FailedKeys(per_minute, LocalLimitTable(), clock=lambda: now_s)
    answered: dict[str, list[float]] = {}
    for pause_s, house in tries:
        now_s += pause_s
        wait_s = 0.0
        try:
            failed.check(f"192.0.2.{house}", None)
            answered.setdefault(f"192.0.2.{house}", []).append(now_s)
        except RateLimitError as error:
            wait_s = error.retry_after_s or math.inf
        assert wait_s <= 60 / per_minute
    for times_s in answered.values():
        for begin_s in times_s:
            assert sum(begin_s <= each < begin_s + 60 for each in times_s) <= 2 * per_minute


def test_only_so_many_addresses_and_keys_are_remembered() -> None:
    table = LocalLimitTable(max_buckets=5)
    failed = FailedKeys(1, table)
    for number in range(10):
        failed.check("192.0.2.1", f"owner-{number}")
        failed.check(f"198.51.100.{number}", None)
    assert len(table._buckets) == 5
