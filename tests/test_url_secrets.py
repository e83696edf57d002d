"""Secrets of URLs: in no output of settings, no log and no error."""

import logging

import pytest

from antiphon.cli.settings import as_toml
from antiphon.config import DataSettings, JobSettings, ServerSettings, Settings
from antiphon.errors import SettingsError, redacted
from antiphon.storage.blobs import BlobStore
from antiphon.telemetry.logs import JsonFormatter, TextFormatter

URLS = (
    "s3://key:SECRET@bucket/voices",
    "s3://key:SEC/RET@bucket/voices",
    "s3://SECRET@bucket",
    "simplecache::s3://key:SECRET@host:9000/b",
    "https://u:SE@CRET@host/b",
    "az://c/b?sv=1&sig=SECRET&x=2",
    "https://host/f?X-Amz-Credential=SECRET%2Fa&X-Amz-Signature=SECRET#top",
    "s3://b?access_key=SECRET;secret_access_key=SECRET",
    "redis://:SECRET@host:6379/0",
    "https://host/a?TOKEN=SECRET",
    "http://host/v1/audio/speech?input=a&expires=1&signature=SECRET",
)
PLAIN = (
    *("no address", "file:///data/voices", "https://host:80/a?size=2", "a@b.example", "s3://b/k"),
)


@pytest.mark.parametrize("url", URLS)
def test_no_url_shows_its_secret(url: str) -> None:
    shown = redacted(f"data.blobs_url: '{url}', and more")
    assert "SECRET" not in shown
    assert "SEC/RET" not in shown
    assert "CRET" not in shown
    assert "and more" in shown
    assert "***" in shown
    assert redacted(shown) == shown
    settings = Settings(data=DataSettings(blobs_url=url), jobs=JobSettings(media_url=url))
    printed = "\n".join(as_toml(settings))
    assert "SECRET" not in printed
    assert "CRET" not in printed
    for formatter in (TextFormatter(), JsonFormatter()):
        record = logging.LogRecord("test", logging.ERROR, "", 0, "kept at %s", (url,), None)
        record.request_id = "-"
        assert "CRET" not in formatter.format(record)
    with pytest.raises(SettingsError) as caught:
        BlobStore(url.replace(url.split("://")[0], "nothing"))
    assert "CRET" not in str(caught.value)
    assert "CRET" not in caught.value.message


@pytest.mark.parametrize("text", PLAIN)
def test_what_has_no_secret_stays_as_it_is(text: str) -> None:
    assert redacted(text) == text


def test_the_secret_that_signs_urls_is_not_shown() -> None:
    settings = Settings(server=ServerSettings(url_signing_key="SECRET" * 6))
    printed = "\n".join(as_toml(settings))
    assert "SECRET" not in printed
    assert "# url_signing_key = not shown" in printed
