"""Files and servers are judged alike; a card has all that was measured and nothing else."""

import wave
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.errors import SettingsError
from antiphon_bench.quality import opinion, speaker_vectors
from antiphon_bench.quality.recording import SpeechRecording, read_recording
from antiphon_bench.quality.report import judge, quality_markdown, summary
from antiphon_bench.quality.spoken import spoken_by
from tests.servers import TOY, start_server

RATE_HZ = 16_000


def write_wav(file: Path, samples: NDArray[np.float64]) -> None:
    with wave.open(str(file), "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(RATE_HZ)
        wav.writeframes((samples * 32767).astype("<i2").tobytes())


def tone(duration_s: float) -> NDArray[np.float64]:
    time_s = np.arange(round(duration_s * RATE_HZ)) / RATE_HZ
    return np.asarray(0.3 * np.sin(2 * np.pi * 150 * time_s) * np.sin(3 * time_s) ** 2)


def test_files_are_read_with_their_texts(tmp_path: Path) -> None:
    file = tmp_path / "one.wav"
    write_wav(file, tone(1.0))
    assert read_recording(file).text is None
    file.with_suffix(".txt").write_text(" What it says.\n", encoding="utf-8")
    found = read_recording(file)
    assert (found.text, found.sample_rate_hz, found.duration_s) == ("What it says.", RATE_HZ, 1)
    assert np.abs(found.samples - tone(1.0)).max() < 1e-4
    for wrong in (b"", b"no audio"):
        file.write_bytes(wrong)
        with pytest.raises(SettingsError):
            read_recording(file)
    with pytest.raises(SettingsError):
        read_recording(tmp_path / "none.wav")


def test_a_server_is_asked_for_every_text() -> None:
    with start_server(TOY) as server:
        texts = {"a": "One.", "b": "Two words here, and more of them."}
        found = spoken_by(f"{server.base_url}/v1", texts, fields={"seed": 1})
        with pytest.raises(SettingsError, match="400"):
            spoken_by(server.base_url, {"a": ""}, fields={})
    assert [(each.name, each.text) for each in found] == list(texts.items())
    assert found[1].duration_s > found[0].duration_s > 0
    assert len(found[1].pieces) > 1
    with pytest.raises(SettingsError):
        spoken_by("http://127.0.0.1:1", texts, fields={})


def test_a_card_shows_what_was_measured() -> None:
    report = judge([SpeechRecording("a", (tone(2.0),), RATE_HZ)], ["defects", "prosody"])
    assert report["summary"]["pitch_hz"] == pytest.approx(150, rel=0.01)
    text = quality_markdown(report, "A tone")
    assert text.startswith("# A tone\n")
    assert "| pitch, Hz | 150 |" in text
    assert "opinion" not in text


def test_a_summary_is_of_all_recordings() -> None:
    rows = [
        {"name": "a", "duration_s": 1.0, "words": 10, "word_errors": 1, "mos": 4.0, "clicks": 1},
        {"name": "b", "duration_s": 3.0, "words": 30, "word_errors": 1, "mos": 3.0, "clicks": 0},
    ]
    found = summary(rows)
    assert found["word_error_rate"] == 0.05, "of the corpus, not of the mean"
    assert (found["mos"], found["clicks"], found["longest_s"]) == (3.5, 1, 3.0)
    assert "speaker_similarity" not in found


def test_missing_packages_are_named_with_how_to_install_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recording = SpeechRecording("a", (tone(2.0),), RATE_HZ)
    for module, metric in ((speaker_vectors, "speaker"), (opinion, "mos")):
        module._network.cache_clear()
        monkeypatch.setattr(module, "find_spec", lambda name: None)
        with pytest.raises(SettingsError, match="--no-deps"):
            judge([recording], [metric])
    with pytest.raises(SettingsError):
        judge([], ["defects"])
