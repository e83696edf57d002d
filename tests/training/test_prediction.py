"""Codes that a language model draws for recordings, and a decoder that learns from them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from antiphon_training.codec_training import CodecTrainer
from antiphon_training.coded_crops import CodedCrops
from antiphon_training.encode import encode_folder
from antiphon_training.language_model.predict import predict_folder
from antiphon_training.language_model.train import Options, Training
from antiphon_training.shards import Shard
from antiphon_training.sizes import FRAME_SAMPLES
from tests.training.conftest import TINY_RECIPE, write_recordings

pytestmark = pytest.mark.slow  # a codec, a language model and a decoder are trained

_CPU = torch.device("cpu")
_RECIPE = replace(TINY_RECIPE, coding_steps=5, settling_steps=1)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recordings(tmp_path_factory.mktemp("tones") / "recordings")


@pytest.fixture(scope="module")
def predicted(recordings: Path) -> Path:
    """Return a folder of predicted codes; those of the recordings are in ``codes`` beside it."""
    tmp_path = recordings.parent
    codec = CodecTrainer(_RECIPE, recordings, _CPU).codec
    encode_folder(codec.eval(), recordings, tmp_path / "codes", 100)
    options = Options(
        codes=tmp_path / "codes",
        out=tmp_path / "lm",
        seconds=100,
        size="tiny",
        batch_positions=256,
        later_frames=32,
        most_steps=2,
        device="cpu",
    )
    Training(options).run()
    out = tmp_path / "predicted"
    folders = (tmp_path / "lm", "tiny", recordings, tmp_path / "codes", out)
    hours = predict_folder(*folders, device=_CPU, hours=1.0, seconds=100)
    assert hours == pytest.approx(8 * 13 * FRAME_SAMPLES / 24_000 / 3600)
    return out


def test_first_codes_are_true_and_stay_beside_the_samples(
    predicted: Path, recordings: Path
) -> None:
    paths = sorted(predicted.glob("codes-*.npz"))
    assert len(paths) == 2
    for path in paths:
        drawn = Shard.read(path, "codes")
        true = Shard.read(predicted.parent / "codes" / path.name, "codes")
        name = path.name.replace("codes-", "audio-")
        audio, recorded = (Shard.read(each / name, "audio") for each in (predicted, recordings))
        np.testing.assert_array_equal(drawn.rows[:, 0], true.rows[:, 0])
        assert (drawn.rows[:, 1:] != true.rows[:, 1:]).mean() > 0.5
        np.testing.assert_array_equal(drawn.offsets, true.offsets)
        np.testing.assert_array_equal(audio.offsets, drawn.offsets * FRAME_SAMPLES)
        for index in range(len(audio.texts)):
            part = recorded.part(index)
            np.testing.assert_array_equal(audio.part(index)[: len(part)], part)


def test_crops_are_of_the_same_frames(predicted: Path) -> None:
    crops = CodedCrops(predicted, _CPU, torch.Generator().manual_seed(0))
    crops.refresh()
    crops.refresh()
    assert len(crops) == 8 * 13
    by_codes: dict[bytes, NDArray[np.int16]] = {}
    for path in sorted(predicted.glob("codes-*.npz")):
        audio = Shard.read(path.with_name(path.name.replace("codes-", "audio-")), "audio")
        frames = audio.rows.reshape(-1, FRAME_SAMPLES)
        by_codes |= dict(zip(map(bytes, Shard.read(path, "codes").rows), frames, strict=True))
    for from_start in (False, True):
        crop = crops.draw(4, 3, from_start=from_start)
        samples = (crop.samples * 32768).view(12, FRAME_SAMPLES).numpy()
        codes = crop.codes.view(12, 16).numpy().astype(np.uint16)
        for row, found in zip(codes, samples, strict=True):
            np.testing.assert_array_equal(by_codes[bytes(row)], found)


def test_the_decoder_alone_learns_from_predicted_codes(predicted: Path, recordings: Path) -> None:
    trainer = CodecTrainer(_RECIPE, recordings, _CPU, predicted=predicted)
    trainer.refresh()
    kinds = [trainer.phase.name]
    while trainer.phase.name != "predicted":
        trainer.train_step()
        kinds.append(trainer.phase.name)
    before = {name: value.clone() for name, value in trainer.codec.state_dict().items()}
    assert set(trainer.train_step()) >= {"mel", "linear", "adversarial", "features"}
    moved = {
        name
        for name, value in trainer.codec.state_dict().items()
        if not torch.equal(value, before[name])
    }
    assert any(name.startswith("decoder.") for name in moved)
    assert all(name.startswith(("decoder.", "first.output", "rest.output")) for name in moved)
    for _ in range(6):
        trainer.train_step()
        kinds.append(trainer.phase.name)
    assert {"decoding", "predicted"} <= set(kinds)
