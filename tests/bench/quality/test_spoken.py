"""What a server says is judged only if it is whole bare samples."""

import numpy as np
import pytest

from antiphon.errors import SettingsError
from antiphon_bench.quality.spoken import spoken_by
from tests.bench.odd_server import DURATION_S, KEY, odd_server

TEXTS = {"greeting": "Good day."}


@pytest.mark.parametrize("name", ["good", "odd_pieces", "slow_head"])
def test_samples_are_read_however_they_come(name: str) -> None:
    with odd_server() as server:
        (found,) = spoken_by(f"{server.base_url}/{name}", TEXTS, fields={})
    assert found.duration_s == pytest.approx(DURATION_S)
    assert np.allclose(found.samples, 1000 / 32768)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("empty", "no audio"),
        ("breaks_off", "ended before the answer"),
        ("breaks_off_in_chunks", "ended before the answer"),
        ("says_nothing", "without any answer"),
        ("half_a_sample", "within a sample"),
        ("html", "text/html"),
        ("mp3_without_a_name", "MP3"),
        ("json_error", "application/json"),
        ("events", "Events came"),
        ("no_rate", "'0' is no sample rate"),
        ("latin_1_error", "berlauf"),
        ("busy", "429"),
        ("no_http", "no HTTP/1.1"),
    ],
)
def test_anything_else_is_refused_with_its_reason(name: str, told: str) -> None:
    with odd_server() as server:
        url = f"{server.base_url}/{name}?key={KEY}"
        with pytest.raises(SettingsError) as refused:
            spoken_by(url, TEXTS, fields={}, api_key=KEY)
    assert told in str(refused.value)
    assert "greeting" in str(refused.value)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize("url", [f"http://[?key={KEY}", f"host?key={KEY}", f"ftp://a:{KEY}@b"])
def test_what_is_no_address_is_told_without_its_key(url: str) -> None:
    with pytest.raises(SettingsError) as refused:
        spoken_by(url, TEXTS, fields={})
    assert KEY not in str(refused.value)


def test_other_formats_are_refused_before_anything_is_asked() -> None:
    with pytest.raises(SettingsError, match="response_format"):
        spoken_by("http://127.0.0.1:1", TEXTS, fields={"response_format": "wav"})
