"""Recordings become voices: a vector, tokens, and two mel frames for each of them."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.contracts.family import LoadContext
from antiphon.errors import InvalidRequestError, ModelLoadError
from antiphon.families.cosyvoice3 import voice_encoder
from antiphon.families.cosyvoice3.prompt import CosyVoice3Prompter
from antiphon.families.cosyvoice3.voice_encoder import PARTS, CosyVoice3VoiceEncoder
from antiphon.families.kit.cloned_voices import CODES, FEATURES, Recording
from tests.families.cosyvoice3.oracle.cases import recording

RATE_HZ = 24_000


@pytest.fixture(scope="module")
def encoder(base: Path) -> CosyVoice3VoiceEncoder:
    return CosyVoice3VoiceEncoder(LoadContext(base))


def test_a_prepared_voice_has_all_that_prompts_need(
    base: Path, encoder: CosyVoice3VoiceEncoder
) -> None:
    prompter, asked = CosyVoice3Prompter(LoadContext(base)), []

    def encode(data: Recording) -> Any:
        asked.append(data.wanted)
        return encoder.encode(data).data

    prompter.use_encoder(encode)
    samples = recording(RATE_HZ)
    voice = prompter.prepare_voice(samples, name="Ann", ref_text=" ")
    assert voice.ref_text is None
    assert voice.speaker_embedding is not None
    assert voice.speaker_embedding.shape == (192,)
    assert voice.ref_codes is not None
    assert voice.ref_codes.shape == (20, 1)  # 25 a second
    assert voice.ref_features is not None
    assert voice.ref_features.shape == (40, 80)
    again = prompter.prepare_voice(samples, name="Bob", ref_text="So.")
    assert (again.name, again.ref_text, len(asked)) == ("Bob", "So.", 1)
    louder = prompter.prepare_voice(samples * np.float32(2), name="Ann")
    assert louder.ref_features is not None
    inner = louder.ref_features[2:-2] - voice.ref_features[2:-2]
    np.testing.assert_allclose(np.median(inner), np.log(2), atol=1e-3)
    prompter.warm_encoder()


@pytest.mark.parametrize("duration_s", [0.4, 30.1])
def test_recordings_have_a_length(
    base: Path, encoder: CosyVoice3VoiceEncoder, duration_s: float
) -> None:
    samples = np.full(round(duration_s * RATE_HZ), 0.1, np.float32)
    with pytest.raises(InvalidRequestError, match="seconds") as caught:
        encoder.encode(Recording(samples, PARTS))
    assert caught.value.param == "ref_audio"


def test_without_the_networks_nothing_is_cloned(custom: Path, tmp_path: Path) -> None:
    shutil.copytree(custom, tmp_path, dirs_exist_ok=True)
    (tmp_path / "campplus.onnx").unlink()
    prompter = CosyVoice3Prompter(LoadContext(tmp_path))
    assert not prompter.capabilities.cloning
    assert not prompter.capabilities.needs_encoder
    with pytest.raises(InvalidRequestError, match=r"campplus\.onnx"):
        prompter.prepare_voice(recording(RATE_HZ), name="Ann")


def test_networks_of_another_shape_are_refused(base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path, dirs_exist_ok=True)
    shutil.copy(tmp_path / "campplus.onnx", tmp_path / "speech_tokenizer_v3.onnx")
    with pytest.raises(ModelLoadError, match="1 inputs instead of 2"):
        CosyVoice3VoiceEncoder(LoadContext(tmp_path))
    (tmp_path / "campplus.onnx").write_bytes(b"nothing")
    with pytest.raises(ModelLoadError, match="cannot be loaded"):
        CosyVoice3VoiceEncoder(LoadContext(tmp_path))


@pytest.mark.parametrize(("num_mel", "wanted"), [(17, 8), (18, 9), (24, 9)])
def test_of_tokens_and_mel_frames_only_those_that_go_together_are_kept(
    encoder: CosyVoice3VoiceEncoder, monkeypatch: pytest.MonkeyPatch, num_mel: int, wanted: int
) -> None:
    """A token has two mel frames; the two networks may differ by one at the end."""
    monkeypatch.setattr(encoder, "_tokens_of", lambda speech: np.arange(9))
    monkeypatch.setattr(voice_encoder, "decoder_mel", lambda *given: np.ones((num_mel, 80)))
    made = encoder.encode(Recording(recording(RATE_HZ), PARTS)).data
    assert (len(made[CODES]), len(made[FEATURES])) == (wanted, 2 * wanted)
