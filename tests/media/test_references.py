"""References as data, files and images: what they stand for, and how much they may be."""

import base64
import os
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from antiphon.config import ReferenceSettings
from antiphon.config.sources import load_settings
from antiphon.errors import InvalidRequestError
from antiphon.media.references import ReferenceLoader, image_use
from tests.media.reference_loading import BODY, loaded, resolving

# data: URIs


@given(st.binary(max_size=200), st.sampled_from(["audio/wav", "", "audio/ogg;codecs=opus"]))
@settings(deadline=None, derandomize=True)
def test_data_uris(data: bytes, media_type: str) -> None:
    encoded = base64.b64encode(data).decode()
    wrapped = "\r\n ".join(encoded[i : i + 7] for i in range(0, len(encoded), 7))
    for content in (encoded, encoded.rstrip("="), quote(encoded, safe=""), wrapped):
        assert loaded(f"data:{media_type};base64,{content}") == data
        assert loaded(f"DATA:{media_type};BASE64,{content}") == data
    assert loaded(f"data:{media_type},{quote(data, safe='')}") == data


def test_data_uris_are_sized_before_they_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (100, 101):
        uris = (
            f"data:;base64,{base64.b64encode(bytes(size)).decode()}",
            f"data:,{'a' * size}",
            f"data:,{'%00' * size}",
        )
        for uri in uris:
            if size == 100:
                assert len(loaded(uri, max_bytes=100)) == 100
            else:
                with pytest.raises(InvalidRequestError, match="too large") as refused:
                    loaded(uri, max_bytes=100)
                assert refused.value.param == "ref_audio"
    monkeypatch.setattr(base64, "b64decode", None)
    with pytest.raises(InvalidRequestError, match="too large"):
        loaded("data:;base64," + "A" * 1000, max_bytes=100)


@pytest.mark.parametrize(
    "uri",
    ["data:", "data:audio/wav;base64", "data:;base64,A", "data:;base64,A*AA", "data:;base64,é"],
)
def test_wrong_data_uris(uri: str) -> None:
    with pytest.raises(InvalidRequestError, match="Could not load reference audio: its data: URI"):
        loaded(uri)


@given(st.text(max_size=40), st.sampled_from(["", "data:", "data:;base64,", "http://", "file:///"]))
@example("\ud800", "data:,")
@example("\ud800", "data:;base64,%41")
@example("[", "http://")
@example("\x00", "file:///")
@example("a:99999", "http://")
@settings(deadline=None, derandomize=True)
def test_no_reference_is_worse_than_wrong(rest: str, beginning: str) -> None:
    changes: dict[str, Any] = {"allow_urls": True, "allowed_media_path": Path(__file__).parent}
    try:
        loaded(beginning + rest, resolve=resolving(), **changes)
    except InvalidRequestError as error:
        assert error.param == "ref_audio"  # noqa: PT017


# file: URIs


@pytest.fixture
def media(tmp_path: Path) -> Path:
    directory = tmp_path / "media"
    directory.mkdir()
    (directory / "ä b.wav").write_bytes(BODY)
    (tmp_path / "secret.wav").write_bytes(b"secret")
    (tmp_path / "media-too").mkdir()
    (tmp_path / "media-too" / "a.wav").write_bytes(b"secret")
    return directory


def test_files_below_the_allowed_directory(media: Path) -> None:
    file = media / "ä b.wav"
    (media / "link.wav").symlink_to(file)
    (media.parent / "door").symlink_to(media)
    assert loaded(file.as_uri(), allowed_media_path=media) == BODY
    assert loaded(str(file), allowed_media_path=media) == BODY
    assert loaded("file://localhost" + quote(str(file)), allowed_media_path=media) == BODY
    assert loaded((media / "link.wav").as_uri(), allowed_media_path=media) == BODY
    assert loaded(file.as_uri(), allowed_media_path=media.parent / "door") == BODY
    assert loaded(file.as_uri(), allowed_media_path=media, max_bytes=len(BODY)) == BODY
    with pytest.raises(InvalidRequestError, match="too large"):
        loaded(file.as_uri(), allowed_media_path=media, max_bytes=len(BODY) - 1)


def test_files_are_refused_by_default(media: Path) -> None:
    with pytest.raises(InvalidRequestError, match="reads no file: URIs"):
        loaded((media / "ä b.wav").as_uri())
    with pytest.raises(InvalidRequestError, match="and no paths"):
        loaded(str(media / "ä b.wav"))


def test_no_path_leads_out(media: Path) -> None:
    (media / "link").symlink_to(media.parent)
    (media / "link.wav").symlink_to(media.parent / "secret.wav")
    (media / "loop").symlink_to(media / "loop")
    messages = set()
    for path in (
        *(
            "secret.wav",
            "media/../secret.wav",
            "media/%2e%2e/secret.wav",
            "media%2F..%2Fsecret.wav",
        ),
        *("media/link/secret.wav", "media/link.wav", "media-too/a.wav", "nothing.wav", ""),
    ):
        uri = f"file://{quote(str(media.parent))}/{path}"
        for reference in (uri, f"{media.parent}/{unquote(path)}"):
            with pytest.raises(InvalidRequestError) as refused:
                loaded(reference, allowed_media_path=media)
            messages.add(refused.value.message)
    # One message for all: nobody learns what there is outside.
    assert len(messages) == 1
    for uri in ("file:secret.wav", "file:///dev/zero", "file://host/a.wav", "file:"):
        with pytest.raises(InvalidRequestError, match="leads out"):
            loaded(uri, allowed_media_path=media)


def test_what_is_no_plain_file_is_not_read(media: Path) -> None:
    (media / "directory").mkdir()
    os.mkfifo(media / "pipe")
    (media / "loop").symlink_to(media / "loop")
    for name in ("directory", "pipe", "loop", "nothing", "a" * 5000):
        with pytest.raises(InvalidRequestError, match="names no file"):
            loaded((media / name).as_uri(), allowed_media_path=media)


def test_settings_come_from_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text('[references]\nallowed_networks = ["10.0.0.0/8", "fd00::/8"]\nmax_bytes = 5\n')
    environment = {
        "ANTIPHON_REFERENCES_ALLOW_URLS": "true",
        "ANTIPHON_REFERENCES_ALLOWED_HOSTS": "a.example, *.b.example",
        "ANTIPHON_REFERENCES_ALLOWED_MEDIA_PATH": "/media",
    }
    flags = {"references.timeout_s": 3.0}
    references = load_settings(flags, file=file, environment=environment).references
    assert references == ReferenceSettings(
        allow_urls=True,
        allowed_hosts=("a.example", "*.b.example"),
        allowed_networks=(ip_network("10.0.0.0/8"), ip_network("fd00::/8")),
        allowed_media_path=Path("/media"),
        max_bytes=5,
        timeout_s=3.0,
    )
    with pytest.raises(ValueError, match="allowed_networks"):
        ReferenceSettings.model_validate({"allowed_networks": ["10.0.0.1/8"]})


# images


async def test_errors_of_images_name_their_field_and_size(media: Path) -> None:
    settings = ReferenceSettings(allowed_media_path=media, allow_urls=True)
    use = image_use("input_reference", len(BODY))
    wrong: dict[str | bytes, str] = {
        BODY + b"!": "Reference image too large",
        "data:image/png;base64," + "A" * 2 * len(BODY): "Reference image too large",
        "cat.png": "Could not load reference image: it must be a data: URI",
        "http://127.0.0.1/cat.png": "Reference image may not be fetched from '127.0.0.1'",
        "http://[": "Could not fetch reference image: its URL is not valid",
        f"file://{media.parent}/secret.wav": "leads out of the directory",
    }
    loader = ReferenceLoader(settings)
    assert await loader.load(BODY, use) == BODY
    assert await loader.load(f"file://{media}/{quote('ä b.wav')}", use) == BODY
    for reference, message in wrong.items():
        with pytest.raises(InvalidRequestError, match=message) as refused:
            await loader.load(reference, use)
        assert refused.value.param == "input_reference"
    loader.close()
