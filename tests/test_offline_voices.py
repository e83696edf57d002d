"""Voices kept from Python: spoken with by name, by this process and by servers of the folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon import Antiphon, SpeechRequest
from antiphon.config import DataSettings
from antiphon.contracts.types import Sampling
from antiphon.errors import InvalidRequestError, UnknownVoiceError
from antiphon.storage.voice_database import VoiceDatabase
from antiphon.voices.store import VoiceStore
from tests.recordings import RECORDING

WORDS = "I said this."
SAMPLING: dict[str, Any] = {"max_new_tokens": 6, "seed": 7}


def test_a_voice_is_kept_and_spoken_with(
    checkpoint: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "ann.wav").write_bytes(RECORDING)
    request = SpeechRequest("Hello.", voice="ann", seed=7, sampling=Sampling(max_frames=5))
    with Antiphon.load(str(checkpoint("tiny", "base")), device="cpu") as antiphon:
        with pytest.raises(UnknownVoiceError):
            antiphon.speech(request)
        voice = antiphon.add_voice("Ann", tmp_path / "ann.wav", WORDS, consent="yes")
        assert (voice.name, voice.kind) == ("Ann", "uploaded")
        assert antiphon.add_voice("Ann", RECORDING, WORDS, consent="yes") == voice
        expected = antiphon.generate_voice_clone("Hello.", RECORDING, WORDS, **SAMPLING)
        np.testing.assert_array_equal(antiphon.speech(request).samples, expected.samples)
        for name, recording, words in (
            ("Ann", RECORDING, "already"),
            ("alloy", RECORDING, "reserved"),
            ("Bob", tmp_path / "nowhere.wav", "Could not read"),
        ):
            with pytest.raises(InvalidRequestError, match=words):
                antiphon.add_voice(name, recording)
    database = VoiceDatabase(DataSettings(dir=tmp_path / "data").folder)
    assert [each.name for each in VoiceStore(database, 1).all()] == ["Ann"]
    database.close()


def test_a_model_that_clones_nothing_keeps_nothing() -> None:
    with (
        Antiphon.load("toy") as antiphon,
        pytest.raises(InvalidRequestError, match="clones no voices"),
    ):
        antiphon.add_voice("Ann", RECORDING)
