"""Part by part, our network computes what the official package computes, on random weights."""

import sys
from collections.abc import Generator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from antiphon.families.kokoro.model import KokoroModel
from antiphon.families.kokoro.torch_network import build_model
from antiphon.families.kokoro.vocoder import NUM_HARMONICS
from tests.families.kokoro.downloads import official_package
from tests.families.kokoro.random_checkpoint import make_checkpoint

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore"),  # the official package's use of PyTorch
]

PARTS = ("bert", "bert_encoder", "predictor", "text_encoder", "decoder")
IDS = torch.tensor([[0, *range(43, 73), 0]])
LENGTH = IDS.shape[1]


@dataclass(frozen=True)
class Pair:
    """The official network, and ours with its weights."""

    official: Any
    own: KokoroModel


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Generator[Pair, None, None]:
    folder = tmp_path_factory.mktemp("82M")
    make_checkpoint(folder, size="82M")
    source = official_package()
    package = ModuleType("kokoro")  # its own start imports what reads text, and needs more packages
    package.__path__ = [str(source / "kokoro")]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(source))
        patch.setitem(sys.modules, "kokoro", package)
        made = import_module("kokoro.model").KModel(
            repo_id="random",
            config=str(folder / "config.json"),
            model=str(folder / "kokoro-v1_0.pth"),
        )
        weights = {part: getattr(made, part).state_dict() for part in PARTS}
        torch.save(weights, folder / "official.pth")
        with torch.inference_mode():
            yield Pair(made.eval(), build_model(folder, folder / "official.pth").eval())
        for name in [name for name in sys.modules if name.startswith("kokoro.")]:
            del sys.modules[name]


@pytest.fixture(scope="module")
def style() -> Tensor:
    return torch.from_numpy(np.random.default_rng(1).standard_normal((1, 256), np.float32)) / 5


def told(pair: Pair, style: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the official duration encoder makes, and durations."""
    lengths, mask = torch.tensor([LENGTH]), torch.zeros(1, LENGTH, dtype=torch.bool)
    hidden = pair.official.bert_encoder(
        pair.official.bert(IDS, attention_mask=torch.ones_like(IDS))
    )
    encoded = pair.official.predictor.text_encoder(hidden.mT, style[:, 128:], lengths, mask)
    return encoded, pair.official.forward_with_tokens(IDS, style)[1]


@torch.inference_mode()
def test_the_language_model_of_phonemes(pair: Pair) -> None:
    official = pair.official.bert(IDS, attention_mask=torch.ones_like(IDS))
    torch.testing.assert_close(pair.own.bert(IDS), official, rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_prosody(pair: Pair, style: Tensor) -> None:
    encoded, durations = told(pair, style)
    prosody = style[:, 128:]
    hidden = pair.own.bert_encoder(pair.own.bert(IDS))
    own = pair.own.predictor.text_encoder(hidden, prosody)
    torch.testing.assert_close(own, encoded, rtol=1e-4, atol=1e-5)
    assert torch.equal(pair.own.predictor.durations(encoded).flatten(), durations.flatten())
    frames = encoded.repeat_interleave(durations.flatten(), dim=1)
    official = pair.official.predictor.F0Ntrain(frames.mT, prosody)
    for ours, theirs in zip(pair.own.predictor.curves(frames, prosody), official, strict=True):
        assert torch.equal(ours, theirs[:, None])


@torch.inference_mode()
def test_text_and_samples(pair: Pair, style: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths, mask = torch.tensor([LENGTH]), torch.zeros(1, LENGTH, dtype=torch.bool)
    text = pair.official.text_encoder(IDS, lengths, mask)
    assert torch.equal(pair.own.text_encoder(IDS), text)
    features = text.repeat_interleave(2, dim=2)
    pitch = torch.linspace(0, 300, 4 * LENGTH)[None]  # with and without a voice
    loudness = torch.linspace(-1, 1, 4 * LENGTH)[None]
    drawn = np.random.default_rng(3).standard_normal((1, 1200 * LENGTH, NUM_HARMONICS), np.float32)
    noise = torch.from_numpy(drawn)

    def given(like: Tensor) -> Tensor:
        return noise if like.shape == noise.shape else torch.zeros_like(like)

    monkeypatch.setattr(torch, "randn_like", given)
    official = pair.official.decoder(features, pitch, loudness, style[:, :128])
    own = pair.own.decoder(features, pitch[:, None], loudness[:, None], style[:, :128], noise)
    assert torch.equal(own.flatten(), official.flatten())
