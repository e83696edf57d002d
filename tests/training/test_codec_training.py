"""Training of a codec: a resumed run equals an uninterrupted one, and nothing breaks it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from antiphon_training.codec_run import CHECKPOINT, CODES_CHECKPOINT, Limits, load_codec, train
from antiphon_training.codec_training import CodecTrainer
from antiphon_training.crops import Crops
from antiphon_training.losses import phoneme_loss
from antiphon_training.optimizing import Learner, adamw, derive
from antiphon_training.quantizer import ResidualQuantizer
from antiphon_training.shards import UNKNOWN, Shard
from tests.training.conftest import TINY_RECIPE

_CPU = torch.device("cpu")
_LIMITS = Limits(seconds=100, log_every_steps=2)


def _train(recordings: Path, folder: Path, steps: int, resume: Path | None = None) -> Path:
    trainer = CodecTrainer(replace(TINY_RECIPE, steps=100), recordings, _CPU)
    train(trainer, folder, replace(_LIMITS, max_step=steps), resume)
    return folder / CHECKPOINT


def test_a_resumed_run_equals_an_uninterrupted_one(recordings: Path, tmp_path: Path) -> None:
    whole = _train(recordings, tmp_path / "whole", 6)
    part = _train(recordings, tmp_path / "part", 4)
    resumed = _train(recordings, tmp_path / "resumed", 6, part)
    first, second = (torch.load(path) for path in (whole, resumed))
    assert first["step"] == second["step"] == 6
    for kind in ("codec", "average", "judges"):
        for name, value in first[kind].items():
            torch.testing.assert_close(value, second[kind][name], atol=1e-6, rtol=1e-5, msg=name)


def test_training_moves_codec_judges_and_average(recordings: Path, tmp_path: Path) -> None:
    trainer = CodecTrainer(TINY_RECIPE, recordings, _CPU)
    before = {name: value.clone() for name, value in trainer.codec.state_dict().items()}
    state = torch.load(_train(recordings, tmp_path, 5))
    for name, value in state["codec"].items():
        assert torch.isfinite(value).all(), name
        assert not torch.equal(value, before[name]), name
    codec = load_codec(tmp_path / CHECKPOINT, _CPU)
    average = state["average"]["decoder.pre_conv.conv.weight"]
    assert torch.equal(codec.decoder.pre_conv.conv.weight, average)
    assert not torch.equal(average, state["codec"]["decoder.pre_conv.conv.weight"])


def test_codes_stay_what_they_are_while_the_decoder_goes_on(
    recordings: Path, tmp_path: Path
) -> None:
    recipe = replace(TINY_RECIPE, coding_steps=5, settling_steps=2)
    trainer = CodecTrainer(recipe, recordings, _CPU)
    train(trainer, tmp_path, replace(_LIMITS, max_step=10))
    early, late = (load_codec(tmp_path / each, _CPU) for each in (CODES_CHECKPOINT, CHECKPOINT))
    samples = torch.randn(2, 4 * 1920) / 4
    codes = early.encode(samples)
    assert len(set(codes.flatten().tolist())) > 8
    assert torch.equal(codes, late.encode(samples))
    assert not torch.equal(early.decode(codes), late.decode(codes))


def test_shards_are_added_while_they_are_written(recordings: Path) -> None:
    trainer = CodecTrainer(TINY_RECIPE, recordings, _CPU)
    moved = recordings / "audio-00001-tone.npz"
    moved.rename(recordings / "later")
    trainer.crops.refresh()
    half = trainer.crops.num_samples
    (recordings / "later").rename(moved)
    trainer.crops.refresh()
    assert trainer.crops.num_samples == 2 * half
    crops = trainer.crops.draw(8, 1000, from_start=True).samples
    assert crops.shape == (8, 1, 1000)
    assert bool((crops[:, 0, 0] == 0).all()), "a tone begins with zero"


def test_crops_know_their_phonemes(tmp_path: Path) -> None:
    """The value of each sample is the number of its phoneme."""
    random = np.random.default_rng(0)
    for index in range(2):
        runs = [np.repeat(random.integers(1, 200, 40), 1200) for _ in range(3)]
        labels = [run[: -100 * number - 1].astype(np.uint8) for number, run in enumerate(runs)]
        samples = [each.astype(np.int16) for each in labels]
        shard = Shard.of(samples, ["A text."] * 3, "count", labels)
        shard.write(tmp_path / f"audio-{index:05d}-count.npz", "audio")
    crops = Crops(tmp_path, _CPU, 0)
    crops.refresh()
    drawn = crops.draw(64, 3 * 1920)
    assert drawn.phonemes.shape == (64, 3, 2)
    values = (drawn.samples[:, 0] * 32768).round().long()
    before, after = (values[:, 480 + each :: 960][:, :6].view(64, 3, 2) for each in (-240, 240))
    is_near = (before == drawn.phonemes) | (after == drawn.phonemes)
    assert bool(is_near.all()), "a label is that of a sample less than 240 away"


def test_unknown_phonemes_teach_nothing() -> None:
    logits = torch.randn(4, 3, 2, UNKNOWN)
    unknown = torch.full((4, 3, 2), UNKNOWN)
    assert float(phoneme_loss(logits, unknown)) == 0
    known = unknown.clone()
    known[0, 0, 0] = 7
    expected = torch.nn.functional.cross_entropy(logits[:1, 0, 0], torch.tensor([7]))
    torch.testing.assert_close(phoneme_loss(logits, known), expected)


def test_a_step_with_a_broken_gradient_changes_nothing() -> None:
    model = nn.Linear(2, 2)
    parameters = list(model.parameters())
    learner = Learner(parameters, adamw(parameters, 0.1))
    before = model.weight.detach().clone()
    derive(model(torch.tensor([[torch.inf, 1.0]])).sum(), [learner])
    learner.step()
    assert torch.equal(model.weight, before)
    derive(model(torch.ones(1, 2)).sum(), [learner])
    learner.step()
    assert not torch.equal(model.weight, before)


def test_codebooks_follow_the_vectors_and_dead_codes_return() -> None:
    torch.manual_seed(0)
    quantizer = ResidualQuantizer(2, 8, 4, 4, 4)
    vectors = torch.randn(1, 4, 256)
    quantizer.fit(vectors)
    quantizer.eval()
    fitted = quantizer(vectors)
    assert set(fitted.codes[:, 0].flatten().tolist()) == set(range(8))
    assert bool((fitted.codes < 8).all())
    quantizer.train()
    moved = vectors + 10
    for _ in range(300):
        quantizer(moved)
        quantizer.move()
    quantizer.eval()
    assert set(quantizer(moved).codes[:, 0].flatten().tolist()) == set(range(8))
