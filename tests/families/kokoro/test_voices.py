"""Voices are described by their names, and mixed by weight."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from antiphon.errors import EngineError, ModelLoadError
from antiphon.families.kokoro.checkpoint import read_checkpoint
from antiphon.families.kokoro.voices import VoiceStyles, describe, in_order, parse_mix


def test_a_name_tells_language_and_gender() -> None:
    voice = describe("bm_george")
    assert (voice.name, voice.language, voice.gender) == ("George", "en-gb", "male")
    assert describe("af_bella+bm_george").language == "en-us"
    assert in_order(["bf_emma", "am_adam", "af_sky", "af_heart"])[:2] == ["af_heart", "af_sky"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("af_sky", [("af_sky", 1.0)]),
        ("af_bella+af_sky", [("af_bella", 0.5), ("af_sky", 0.5)]),
        ("af_bella(3)+af_sky", [("af_bella", 0.75), ("af_sky", 0.25)]),
        ("af_bella(1.5)-af_sky(.5)", [("af_bella", 0.75), ("af_sky", -0.25)]),
        ("af_bella(0)+af_sky(0)", [("af_bella(0)+af_sky(0)", 1.0)]),
        ("af_bella+", [("af_bella+", 1.0)]),
        ("af_bella(x)", [("af_bella(x)", 1.0)]),
        ("", [("", 1.0)]),
    ],
)
def test_mixes_are_shares(name: str, expected: list[tuple[str, float]]) -> None:
    assert [(each.name, each.share) for each in parse_mix(name)] == expected


def test_a_mix_has_the_mean_of_its_styles(official: Path, exported: Path) -> None:
    for path in (official, exported):
        styles = VoiceStyles(read_checkpoint(path))
        heart, sky = styles.style("af_heart", 7), styles.style("af_sky", 7)
        assert heart.shape == (1, 256)
        mixed = styles.style("af_heart(3)+af_sky", 7)
        np.testing.assert_allclose(mixed, 0.75 * heart + 0.25 * sky, rtol=1e-5, atol=1e-6)


def test_the_length_of_a_sentence_chooses_the_row(official: Path) -> None:
    styles = VoiceStyles(read_checkpoint(official))
    rows = [styles.style("af_heart", number) for number in (1, 2, 510, 600)]
    assert not np.array_equal(rows[0], rows[1])
    np.testing.assert_array_equal(rows[2], rows[3])
    with pytest.raises(EngineError):
        styles.style("nobody", 1)


def test_a_damaged_voice_is_told(official: Path, exported: Path, tmp_path: Path) -> None:
    for path, name, content in (
        (official, "af_sky.pt", b"nonsense"),
        (exported, "af_sky.bin", np.full(512, np.nan, np.float32).tobytes()),
    ):
        copied = tmp_path / name
        shutil.copytree(path, copied)
        (copied / "voices" / name).write_bytes(content)
        with pytest.raises(ModelLoadError, match=name):
            VoiceStyles(read_checkpoint(copied)).style("af_sky", 7)
