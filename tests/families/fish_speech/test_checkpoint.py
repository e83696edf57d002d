"""Checkpoints: both layouts are told apart and told of, and what is wrong with one is named."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.fish_speech.checkpoint import inspect
from antiphon.families.fish_speech.codec_schema import CodecSizes, codec_layout
from antiphon.families.fish_speech.config import Layout, load_config
from antiphon.families.fish_speech.encoder import load_voice_encoder
from antiphon.families.fish_speech.language_model import load_model
from antiphon.families.fish_speech.tokenizer import load_tokenizer
from antiphon.families.kit.cloned_voices import CODES, Recording, warm_up_samples
from antiphon.families.registry import checkpoint_family
from tests.families.fish_speech.random_checkpoint import decoder_in, encoder_in, make_checkpoint


@pytest.fixture
def copied(made: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:

    def copy(task: str) -> Path:
        return Path(shutil.copytree(made(task), tmp_path / task))

    return copy


def change(file: Path, **values: Any) -> None:
    content = json.loads(file.read_text())
    for key, value in values.items():
        section, name = content, key
        if "__" in key:
            first, name = key.split("__")
            section = content[first]
        section[name] = value
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(("task", "layout"), [("s2", Layout.S2), ("s1", Layout.S1)])
def test_both_layouts_are_known_and_told(
    made: Callable[[str], Path], task: str, layout: Layout
) -> None:
    path = made(task)
    assert checkpoint_family(path).name == "fish_speech"
    config = load_config(path)
    assert config.layout is layout
    told = inspect(path)
    assert not told.problems
    assert "commercial use" in str(told.facts["Weights' licence"])
    assert told.facts["Semantic codes"] == 160


def test_the_licence_is_told_when_weights_are_loaded(
    made: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        load_model(LoadContext(path=made("s1"), device="cpu", max_slots=1), 32)
    assert "Fish Audio Research License" in caplog.text


def test_published_sizes_are_those_of_the_published_codec() -> None:
    layout = codec_layout(CodecSizes())
    counts = [sum(name.startswith(part) for name in layout) for part in ("enc", "quant", "dec")]
    assert counts == [126, 240, 89]


@pytest.mark.parametrize(
    ("task", "values", "named"),
    [
        ("s2", {"model_type": "naive"}, "model_type"),
        ("s2", {"text_config__n_local_heads": 3}, "n_local_heads"),
        ("s2", {"text_config__dim": 32}, "shape"),
        ("s2", {"text_config__vocab_size": 300}, "embeddings"),
        ("s2", {"audio_decoder_config__vocab_size": 100}, "semantic"),
        ("s2", {"audio_decoder_config__num_codebooks": 1}, "num_codebooks"),
        ("s2", {"text_config__attention_qkv_bias": True}, "attention_qkv_bias"),
        ("s2", {"audio_decoder_config__attention_qk_norm": True}, "attention_qk_norm"),
        ("s1", {"norm_fastlayer_input": True}, "norm_fastlayer_input"),
        ("s1", {"n_head": "many"}, "n_head"),
        ("s1", {"n_fast_layer": 3}, "missing"),
        ("s1", {"fast_dim": 64}, "fast_"),
        ("s1", {"num_codebooks": 4}, "codebook_embeddings"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(
    copied: Callable[[str], Path], task: str, values: dict[str, Any], named: str
) -> None:
    path = copied(task)
    change(path / "config.json", **values)
    with pytest.raises(ModelLoadError, match=named):
        load_model(LoadContext(path=path, device="cpu", max_slots=1), 32)


def test_a_codec_of_another_shape_is_refused(copied: Callable[[str], Path]) -> None:
    path = copied("s2")
    state = torch.load(path / "codec.pth", weights_only=True)
    good = dict(state)

    def problem(changed: dict[str, Any]) -> str:
        torch.save(changed, path / "codec.pth")
        with pytest.raises(ModelLoadError, match=r"codec\.pth") as caught:
            decoder_in(path)
        return caught.value.message

    gone = "quantizer.upsample.0.1.gamma"
    assert gone in problem({name: each for name, each in good.items() if name != gone})
    assert "more.weight" in problem({**good, "decoder.more.weight": torch.zeros(1)})
    normed = "decoder.model.0.conv.parametrizations.weight"
    part = {name: each for name, each in good.items() if name != f"{normed}.original1"}
    assert f"{normed}.original0" in problem(part)
    assert "missing" in problem({"state_dict": {"a": 1}})
    (path / "codec.pth").unlink()
    with pytest.raises(ModelLoadError, match=r"codec\.pth: cannot be read"):
        decoder_in(path)
    change(path / "config.json", codec_config={"semantic_codes": 100})
    with pytest.raises(ModelLoadError, match="smaller codebooks"):
        encoder_in(path)
    assert any("codec.pth" in each for each in inspect(path).problems)


def test_what_files_repeat_or_wrap_is_left_out(
    made: Callable[[str], Path], copied: Callable[[str], Path]
) -> None:
    path = copied("s1")
    state = torch.load(path / "codec.pth", weights_only=True)
    wrapped = {f"generator.{name}": each for name, each in state.items()}
    wrapped["generator.quantizer.pre_module.causal_mask"] = torch.zeros(2, 2)
    wrapped["generator.quantizer.post_module.freqs_cis"] = torch.zeros(2, 2)
    wrapped["discriminator.weight"] = torch.zeros(2)
    torch.save({"state_dict": wrapped}, path / "codec.pth")
    assert torch.equal(
        decoder_in(path).network.last_conv.bias, decoder_in(made("s1")).network.last_conv.bias
    )
    weights = torch.load(path / "model.pth", weights_only=True)
    repeated = {f"model.{name}": each for name, each in weights.items()}
    head = weights["embeddings.weight"].clone()
    repeated |= {"model.output.weight": head, "model.freqs_cis": torch.zeros(1)}
    torch.save({"state_dict": repeated}, path / "model.pth")
    load_model(LoadContext(path=path, device="cpu", max_slots=1), 32)
    head[0] += 1
    torch.save({"state_dict": repeated}, path / "model.pth")
    with pytest.raises(ModelLoadError, match=r"'output.weight' differs from 'embeddings.weight'"):
        load_model(LoadContext(path=path, device="cpu", max_slots=1), 32)


def test_a_tied_head_that_differs_is_refused_in_safetensors(copied: Callable[[str], Path]) -> None:
    path = copied("s2")
    (file,) = path.glob("model*.safetensors")
    weights = load_file(file)
    head, embedding = "text_model.model.output.weight", "text_model.model.embeddings.weight"
    save_file(weights | {head: weights[embedding].clone()}, file)
    assert not inspect(path).problems
    save_file(weights | {head: weights[embedding] + 1}, file)
    assert any(f"'{head}' differs from '{embedding}'" in each for each in inspect(path).problems)
    with pytest.raises(ModelLoadError, match="differs"):
        load_model(LoadContext(path=path, device="cpu", max_slots=1), 32)


def test_a_tokenizer_must_have_what_prompts_need(copied: Callable[[str], Path]) -> None:
    path = copied("s1")
    file = path / "special_tokens.json"
    ids = json.loads(file.read_text())
    file.write_text(json.dumps({**ids, "<|semantic:4|>": 5}))
    with pytest.raises(ModelLoadError, match="follow each other"):
        load_config(path)
    file.write_text(json.dumps({name: ids[name] for name in ids if "semantic" not in name}))
    with pytest.raises(ModelLoadError, match="lacks"):
        load_config(path)
    ranks = path / "tokenizer.tiktoken"
    ranks.write_text("\n".join(ranks.read_text().splitlines()[:100]))
    with pytest.raises(ModelLoadError, match="bytes have no token"):
        load_tokenizer(path)
    ranks.write_text("YQ== one")
    with pytest.raises(ModelLoadError, match="cannot be read"):
        load_tokenizer(path)


def test_recordings_are_encoded_in_whole_frames(made: Callable[[str], Path]) -> None:
    encoder = load_voice_encoder(LoadContext(path=made("s2"), device="cpu"))
    codes: np.ndarray[Any, Any] = encoder.encode(Recording(warm_up_samples(44_100), (CODES,))).data[
        CODES
    ]
    assert codes.shape == (22, 10)
    assert codes.dtype == np.int64
    assert 0 <= codes.min() <= codes.max() < 160


def test_makers_arguments_are_checked(tmp_path: Path) -> None:
    for wrong in ({"size": "small"}, {"task": "s3"}, {"dtype": "int8"}, {"vocabulary": "full"}):
        with pytest.raises(ModelLoadError, match=r"There is no"):
            make_checkpoint(tmp_path, **wrong)


def test_a_checkpoint_in_shards_of_another_type_is_the_same_model(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, shards=3, dtype="bfloat16", seed=4)
    assert not inspect(tmp_path).problems
    model = load_model(LoadContext(path=tmp_path, device="cpu", max_slots=1), 32)
    assert model.like.dtype == torch.float32
