"""Images by address: kept for their owner, in a folder or elsewhere, within limits."""

import base64
from pathlib import Path
from typing import Any

import httpx

from antiphon.config import DataSettings, ServerSettings, Settings
from antiphon.config.media import MediaSettings
from tests.decoding import error_of
from tests.servers import TOY, RunningServer, start_server

ALICE, BOB = "sk-alice", "sk-bob"


def drawn(server: RunningServer, key: str | None = None, **members: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.post(
        f"{server.base_url}/v1/images/generations",
        json={"prompt": "a cat", "seed": 5, "response_format": "url", **members},
        headers=headers,
        timeout=60,
    )


def settings(tmp_path: Path, **media: Any) -> Settings:
    return TOY.model_copy(
        update={"data": DataSettings(dir=tmp_path), "media": MediaSettings(**media)}
    )


def test_an_address_leads_to_the_image(tmp_path: Path) -> None:
    with start_server(settings(tmp_path)) as server:
        answer = drawn(server, output_format="webp", n=2).json()
        whole = drawn(server, output_format="webp", response_format="b64_json", n=2).json()
        for image, same in zip(answer["data"], whole["data"], strict=True):
            assert image["url"].startswith(f"{server.base_url}/v1/media/")
            file = httpx.get(image["url"])
            assert file.headers["content-type"] == "image/webp"
            assert file.content == base64.b64decode(same["b64_json"])
            part = httpx.get(image["url"], headers={"Range": "bytes=0-3"})
            assert (part.status_code, part.content) == (206, b"RIFF")
        url = answer["data"][0]["url"]
        error_of(httpx.get(f"{url[:-10]}0000000000"), 404)
        error_of(httpx.get(f"{server.base_url}/v1/media/../voices.sqlite3"), 404)
        streamed = drawn(server, stream=True, partial_images=1)
        assert '"url":"http' in streamed.text.splitlines()[-2]
        assert len([*tmp_path.rglob("*.webp")]) == 2


def test_an_image_is_its_owner_s(tmp_path: Path) -> None:
    keys = ServerSettings(api_keys=(f"{ALICE} owner=alice", f"{BOB} owner=bob"))
    with start_server(settings(tmp_path).model_copy(update={"server": keys})) as server:
        url = drawn(server, ALICE).json()["data"][0]["url"]
        error_of(httpx.get(url), 401)
        assert httpx.get(url, headers={"Authorization": f"Bearer {ALICE}"}).status_code == 200
        error_of(httpx.get(url, headers={"Authorization": f"Bearer {BOB}"}), 404)


def test_addresses_are_those_of_the_place(tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    there = settings(
        tmp_path, output_fs_url=f"file://{place}", output_http_url="https://cdn.example/pictures"
    )
    with start_server(there) as server:
        url = drawn(server).json()["data"][0]["url"]
        key = url.removeprefix("https://cdn.example/pictures/")
        assert (place / key).read_bytes().startswith(b"\x89PNG")


def test_a_place_that_is_full_is_told_and_others_are_not_hindered(tmp_path: Path) -> None:
    with start_server(settings(tmp_path, max_gib=1e-9)) as server:
        assert error_of(drawn(server), 507)["code"] == "insufficient_storage"
        assert drawn(server, response_format="b64_json").status_code == 200
        assert not [*tmp_path.rglob("*.png*")]
