"""Quantised weights of whole models: `quantize` is "int8"."""

import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from antiphon.contracts.chat_types import ChatRequest, Message
from antiphon.contracts.types import Sampling, SpeechRequest
from antiphon.errors import ModelLoadError, SettingsError
from antiphon.families.registry import families
from antiphon.nn.cpu import packed_layers
from antiphon.nn.cpu.fp16_linear import Fp16Linear
from antiphon.nn.cpu.int8_linear import Int8Linear
from antiphon.nn.cpu.int8_weight_linear import Int8WeightLinear
from antiphon.nn.layers import Linear
from antiphon.offline import Antiphon
from tests.pipeline.test_load_format import without_weights

SPOKEN = {"qwen3_tts": "custom_voice", "cosyvoice3": "custom_voice"}


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[Linear]:
    """Return the layers that are quantised from now on."""
    layers: list[Linear] = []

    def noted(pack: Callable[[Linear], Linear], linear: Linear) -> Linear:
        layers.append(linear)
        return pack(linear)

    for kind in (Int8Linear, Int8WeightLinear, Fp16Linear):
        monkeypatch.setattr(kind, "pack", partial(noted, kind.pack))
    return layers


def loaded(path: Path, quantize: str = "int8") -> Antiphon:
    return Antiphon.load(
        str(path), device="cpu", max_slots=3, load_format="dummy", quantize=quantize
    )


@pytest.mark.parametrize(
    ("name", "quantize", "has_fbgemm"),
    [
        *((name, "int8", True) for name in SPOKEN),
        ("qwen3_tts", "fp16", True),
        ("qwen3_tts", "int8", False),
    ],
)
def test_streamed_speech_is_that_of_a_whole_file_alone_or_beside_others(
    name: str,
    quantize: str,
    has_fbgemm: bool,
    packed: list[Linear],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not has_fbgemm:
        monkeypatch.setattr(packed_layers, "has_engine", lambda: False)
    elif quantize not in packed_layers.kinds():
        pytest.skip("needs FBGEMM")
    path = without_weights(tmp_path, name, SPOKEN[name])
    requests = [
        SpeechRequest(f"Number {seed}.", seed=seed, sampling=Sampling(max_frames=8))
        for seed in range(3)
    ]
    with loaded(path, quantize) as model:
        together = [each.samples for each in model.speeches(requests)]
        for request, samples in zip(requests, together, strict=True):
            np.testing.assert_array_equal(model.speech(request).samples, samples)
        chunks = [chunk.samples for chunk in model.stream(requests[0])]
        np.testing.assert_array_equal(np.concatenate(chunks), together[0])
    assert packed


def test_a_cpu_of_another_kind_has_int8_weights_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    path = without_weights(tmp_path, "qwen3_tts", "custom_voice")
    with pytest.raises(ModelLoadError, match=r"'fp16'\. On this CPU it must be unset, or int8"):
        loaded(path, "fp16")


def test_a_language_model_answers_quantised(packed: list[Linear], tmp_path: Path) -> None:
    path = without_weights(tmp_path, "causal_lm", "qwen3")
    request = ChatRequest((Message(role="user", content="Hello."),), seed=1, max_tokens=5)
    with loaded(path) as model:
        assert packed
        assert model.chat(request) == model.chat(request)


def test_other_families_refuse_it() -> None:
    assert {each.name for each in families() if each.quantizes} == {*SPOKEN, "causal_lm"}
    with pytest.raises(SettingsError, match=r"Invalid 'model\.quantize': 'int8'\..*'toy'"):
        Antiphon.load("toy", quantize="int8")
    with pytest.raises(SettingsError, match=r"'int4'\. Must be 'int8' or 'fp16'.*11 dB.*21 dB"):
        Antiphon.load("toy", quantize="int4")
    with pytest.raises(SettingsError, match=r"quantize': 'int3'\. Must be 'int8' or 'fp16'\.$"):
        Antiphon.load("toy", quantize="int3")


@pytest.mark.parametrize("device", ["mps", "gpu", "cuda:x", "cpu:1"])
def test_unknown_devices_are_refused_in_words(device: str) -> None:
    allowed = rf"'{device}'\. Must be auto, cpu, cuda or cuda:N\.$"
    with pytest.raises(SettingsError, match=rf"^Invalid 'model\.device': {allowed}"):
        Antiphon.load("toy", device=device)
    with pytest.raises(SettingsError, match=rf"^Invalid 'model\.decoder_device': {allowed}"):
        Antiphon.load("toy", decoder_device=device)
