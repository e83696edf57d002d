"""Random weights in place of a checkpoint's files: `load_format` is "dummy"."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.contracts.chat_types import ChatRequest, Message
from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest, VideoRequest
from antiphon.contracts.types import Sampling, SpeechRequest
from antiphon.errors import ModelLoadError, SettingsError
from antiphon.families.kit.random_checkpoint import DRAWN_FILE
from antiphon.families.registry import families, family
from antiphon.families.voxcpm2.checkpoint import PTH
from antiphon.offline import Antiphon

FRAMES = 6
NOTHING = np.full((32, 32, 3), 128, np.uint8)
VIDEO = ("wan_video", "i2v-2.2-a14b")
DRAWN = [VIDEO, ("ovis_image", "base"), ("glm_image", "base"), ("qwen_image", "edit")]
NOISE = np.random.default_rng(0).uniform(-0.3, 0.3, 48_000).astype(np.float32)
SPOKEN = [
    ("qwen3_tts", "custom_voice", {}),
    ("qwen3_tts", "voice_design", {"instructions": "A calm voice."}),
    ("qwen3_tts", "base", {"options": {"ref_audio": NOISE, "x_vector_only_mode": True}}),
    ("voxcpm2", "custom_voice", {"options": {"ref_audio": NOISE}}),
    ("mimo_audio", "custom_voice", {"options": {"ref_audio": NOISE}}),
    ("fish_speech", "s2", {"options": {"ref_audio": NOISE, "ref_text": "What it says."}}),
    ("fish_speech", "s1", {}),
    ("kokoro", "custom_voice", {}),
    ("cosyvoice3", "custom_voice", {}),
    ("cosyvoice3", "base", {"options": {"ref_audio": NOISE, "ref_text": "What it says."}}),
]


def without_weights(path: Path, name: str, task: str) -> Path:
    """Return the directory of a tiny checkpoint whose files of weights are deleted."""
    maker = family(name).checkpoint_maker
    assert maker is not None
    maker.resolve()(path, size="tiny", task=task)
    (path / DRAWN_FILE).unlink(missing_ok=True)
    for file in [*path.rglob("*.safetensors"), *path.rglob("*.safetensors.index.json")]:
        file.unlink()
    return path


@pytest.mark.parametrize(("name", "task", "fields"), SPOKEN)
def test_speech_is_made_without_files_of_weights_and_again_alike(
    name: str, task: str, fields: dict[str, Any], tmp_path: Path
) -> None:
    path = without_weights(tmp_path, name, task)
    request = SpeechRequest(
        input="Hello there.", seed=1, sampling=Sampling(max_frames=FRAMES), **fields
    )
    heard = []
    for _ in range(2):
        with Antiphon.load(str(path), device="cpu", max_slots=2, load_format="dummy") as model:
            heard.append(model.speech(request).samples)
    assert np.abs(heard[0]).max() > 0
    np.testing.assert_array_equal(heard[0], heard[1])


def test_a_file_of_weights_in_another_format_is_not_read(tmp_path: Path) -> None:
    path = without_weights(tmp_path, "voxcpm2", "custom_voice")
    (path / PTH).write_bytes(b"not a file of tensors")
    request = SpeechRequest(
        input="Hello there.",
        seed=1,
        sampling=Sampling(max_frames=FRAMES),
        options={"ref_audio": NOISE},
    )
    with Antiphon.load(str(path), device="cpu", max_slots=2, load_format="dummy") as model:
        assert np.abs(model.speech(request).samples).max() > 0


@pytest.mark.parametrize("layout", ["qwen3", "llama", "omni_voice"])
def test_a_language_model_answers_without_files_of_weights(layout: str, tmp_path: Path) -> None:
    path = without_weights(tmp_path, "causal_lm", layout)
    request = ChatRequest((Message(role="user", content="Hello."),), seed=1, max_tokens=5)
    with Antiphon.load(str(path), device="cpu", max_slots=2, load_format="dummy") as model:
        assert model.chat(request) == model.chat(request)


def test_a_directory_that_is_made_without_weights_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    maker = family("mimo_audio").checkpoint_maker
    assert maker is not None
    maker.resolve()(tmp_path)
    with Antiphon.load(str(tmp_path), device="cpu", max_slots=2) as model:
        request = SpeechRequest("Hello.", seed=1, sampling=Sampling(max_frames=FRAMES))
        assert np.abs(model.speech(request).samples).max() > 0
    assert f"{tmp_path}: was made without weights" in caplog.text


@pytest.mark.parametrize(
    ("name", "task"),
    # A picture that is edited is encoded at a million pixels; the video has all kinds of parts.
    [pytest.param(*each, marks=() if each == VIDEO else pytest.mark.slow) for each in DRAWN],
)
def test_pictures_are_made_without_files_of_weights_and_again_alike(
    name: str, task: str, tmp_path: Path
) -> None:
    maker = family(name).checkpoint_maker
    assert maker is not None
    maker.resolve()(tmp_path, task=task)
    few = DiffusionParameters(num_inference_steps=2)
    seen = []
    for _ in range(2):
        with Antiphon.load(str(tmp_path), device="cpu", max_slots=2) as model:
            images = (NOTHING,) if task == "edit" else ()
            if name == "wan_video":
                video = VideoRequest("A cat.", seed=1, num_frames=5, image=NOTHING, parameters=few)
                seen.append(model.video(replace(video, width=32, height=32)).frames)
            else:
                image = ImageRequest("A cat.", seed=1, images=images, parameters=few)
                seen.append(model.image(replace(image, width=64, height=64)).pixels)
    assert seen[0].std() > 1, "it shows something"
    np.testing.assert_array_equal(seen[0], seen[1])


def test_files_of_weights_are_needed_by_default(tmp_path: Path) -> None:
    path = without_weights(tmp_path, "causal_lm", "qwen3")
    with pytest.raises(ModelLoadError, match=r"there is neither model\.safetensors"):
        Antiphon.load(str(path), device="cpu")


def test_a_family_that_reads_files_only_refuses_it() -> None:
    with pytest.raises(SettingsError, match=r"Invalid 'model\.load_format': 'dummy'\."):
        Antiphon.load("toy", load_format="dummy")


def test_every_family_that_draws_weights_is_tried() -> None:
    drawing = {each.name for each in families() if each.draws_weights}
    assert drawing == {name for name, *_ in (*SPOKEN, *DRAWN)} | {"causal_lm"}
