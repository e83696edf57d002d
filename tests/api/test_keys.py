"""API keys: what is accepted, where they are kept, and how they are made."""

from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from antiphon.api.keys import KeyRing, hashed
from antiphon.config import ServerSettings, Settings
from antiphon.errors import SettingsError
from tests.servers import TOY, start_server


def bearing(key: str) -> Headers:
    """Return headers as they come over the wire."""
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
