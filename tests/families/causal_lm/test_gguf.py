"""Chat models in GGUF files have the weights, tokens and answers of their checkpoints."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from antiphon.cli.main import app
from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.causal_lm.checkpoint import inspect, model_part
from antiphon.families.causal_lm.config import load_config
from antiphon.families.causal_lm.language_model import load_runner
from antiphon.families.causal_lm.prompt import CausalLMPrompter
from antiphon.families.causal_lm.tokenizer import load_tokenizer
from antiphon.families.registry import checkpoint_directory, resolve
from antiphon.nn.weights import open_weights
from tests.engine.drive import tokens_of
from tests.families.causal_lm.answers import greedy
from tests.families.causal_lm.gguf_files import write_gguf

TEXT = "<|im_start|>user\nÜber 12 \N{SLIGHTLY SMILING FACE}<|im_end|>"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr("huggingface_hub.utils._cache_assets.HF_ASSETS_CACHE", folder)
    return folder


@pytest.fixture
def source_of(checkpoint_of: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """Checkpoints, of which Llama's has the scaling of Llama 3."""

    def made(layout: str) -> Path:
        path = tmp_path / layout
        if layout != "llama":
            return checkpoint_of(layout)
        if not path.exists():
            shutil.copytree(checkpoint_of(layout), path)
            config = json.loads((path / "config.json").read_text())
            config["rope_scaling"]["original_max_position_embeddings"] = 8192
            (path / "config.json").write_text(json.dumps(config))
        return path

    return made


@pytest.fixture
def file_of(source_of: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    def made(layout: str = "qwen3", changes: dict[str, Any] | None = None, **how: Any) -> Path:
        file = tmp_path / "files" / f"{layout}.gguf"
        file.parent.mkdir(exist_ok=True)
        write_gguf(source_of(layout), file, changes, **how)
        return file

    return made


def weights_of(path: Path) -> dict[str, Tensor]:
    with open_weights(model_part(path, load_config(path)), like=torch.empty(0)) as weights:
        return {name: weights[name] for name in weights}


def answer_of(path: Path, quantize: str | None = None) -> list[int]:
    context = LoadContext(path=path, device="cpu", max_slots=1, quantize=quantize)
    prompt = greedy(CausalLMPrompter(context), "Why?", max_tokens=12)
    return tokens_of(load_runner(context), {0: prompt})[0]


@pytest.mark.parametrize("layout", ["llama", "qwen2", "qwen3"])
def test_weights_tokens_and_answers_are_those_of_the_checkpoint(
    layout: str, file_of: Callable[..., Path], source_of: Callable[[str], Path]
) -> None:
    family, path = resolve(str(file_of(layout)))
    source = source_of(layout)
    assert family.name == "causal_lm"
    assert path is not None
    found, wanted = weights_of(path), weights_of(source)
    assert found.keys() == wanted.keys()
    for name, each in found.items():
        tolerance = 1e-3 if name == "model.norm.weight" else 0  # the only one in float16
        assert torch.allclose(each, wanted[name], rtol=tolerance, atol=0), name
    assert load_tokenizer(path).encode(TEXT) == load_tokenizer(source).encode(TEXT)
    for quantize in (None, "int8"):
        assert answer_of(path, quantize) == answer_of(source, quantize)
    assert inspect(path).problems == ()
    assert inspect(path).facts["Parameters"] == inspect(source).facts["Parameters"]


def test_quantized_values_are_within_a_step(
    file_of: Callable[..., Path], checkpoint_of: Callable[[str], Path]
) -> None:
    pytest.importorskip("gguf", reason="needs the extra 'gguf'")
    path = checkpoint_directory(file_of("qwen2", q8=True))
    wanted = weights_of(checkpoint_of("qwen2"))
    for name, each in weights_of(path).items():
        assert (each - wanted[name]).abs().max() <= wanted[name].abs().max() / 254 * 1.2
    assert "Q8_0 (GGUF)" in str(inspect(path).tables[0].rows)
    assert answer_of(path, "int8")


def test_commands_name_the_file_that_they_were_given(file_of: Callable[..., Path]) -> None:
    file = str(file_of())
    done = CliRunner().invoke(app, ("models", "fit", file, "--card", "T4"))
    assert done.output.startswith(f"antiphon: {file}: ")
    shown = CliRunner().invoke(app, ("models", "inspect", file), env={"COLUMNS": "500"})
    assert file in shown.stdout.split()


def test_a_folder_with_one_file_is_that_file(file_of: Callable[..., Path]) -> None:
    file = file_of()
    path = checkpoint_directory(file.parent)
    assert path == checkpoint_directory(file) != file.parent
    assert checkpoint_directory(path) == path
    shutil.copy(file, file.with_name("other.gguf"))
    with pytest.raises(ModelLoadError, match="holds several GGUF files; give the path of one"):
        resolve(str(file.parent))


def test_a_file_that_changes_is_read_again(file_of: Callable[..., Path]) -> None:
    path = checkpoint_directory(file := file_of())
    with file.open("ab") as stream:
        stream.write(bytes(32))
    with pytest.raises(ModelLoadError, match="no longer"):
        weights_of(path)
    assert checkpoint_directory(file) != path


def test_a_tokenizer_beside_the_file_is_checked_and_used(
    file_of: Callable[..., Path], checkpoint_of: Callable[[str], Path]
) -> None:
    file = file_of("qwen3", {"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": None})
    with pytest.raises(ModelLoadError, match=r"is 'llama' .* Put the model's tokenizer\.json"):
        checkpoint_directory(file)
    beside = Path(shutil.copy(checkpoint_of("qwen3") / "tokenizer.json", file.parent))
    path = checkpoint_directory(file)
    assert load_tokenizer(path).encode(TEXT) == load_tokenizer(file.parent).encode(TEXT)
    beside.write_text(beside.read_text().replace("im_start", "im_other"))
    with pytest.raises(ModelLoadError, match=r"token \d+ is not '<\|im_start\|>', as in qwen3"):
        checkpoint_directory(file)


def test_other_frequencies_than_those_of_llama_3_are_refused(
    file_of: Callable[..., Path], checkpoint_of: Callable[[str], Path]
) -> None:
    file = file_of("llama")
    write_gguf(checkpoint_of("llama"), file)  # whose scaling begins at 64 positions
    with pytest.raises(ModelLoadError, match=r"is not the scaling of Llama 3\.1"):
        checkpoint_directory(file)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"general.architecture": "qwen35"}, r"GGUF \('qwen35'\) weights are not supported"),
        (
            {"qwen3.block_count": None},
            r"'qwen3\.block_count' must be a whole number, not negative, but is None",
        ),
        ({"qwen3.rope.dimension_count": 4}, "'qwen3.rope.dimension_count' is 4; only"),
        ({"qwen3.attention.sliding_window": 8}, "sliding_window' is 8; only 0 is supported"),
        ({"qwen3.block_count": 2**31}, "is 2147483648, more than there are tensors"),
        ({"qwen3.rope.freq_base": 0.0}, r"freq_base' must be a number above 0, but is 0\.0"),
        ({"general.alignment": 0}, "'general.alignment' is 0"),
        ({"qwen3.expert_count": 8}, "'qwen3.expert_count' is 8; only 0"),
        ({"split.count": 3}, "is one of 3 parts"),
        ({"tokenizer.ggml.tokens": None}, r"'tokenizer\.ggml\.tokens' is missing"),
        ({"tokenizer.ggml.pre": "tekken"}, r"'tokenizer\.ggml\.pre' 'tekken'; only"),
    ],
)
def test_what_is_not_implemented_is_refused(
    changes: dict[str, Any], message: str, file_of: Callable[..., Path], cache: Path
) -> None:
    with pytest.raises(ModelLoadError, match=message):
        resolve(str(file_of("qwen3", changes)))
    assert not [*cache.rglob("*.json")]


def test_broken_files_are_refused(file_of: Callable[..., Path]) -> None:
    file = file_of()
    content = file.read_bytes()
    for broken, message in {
        content[:-200]: r"bytes, but '.*' ends at",
        content[:300]: "damaged or cut off",
        b"GGUF": "cannot be read|damaged",
        b"PK": "is no GGUF file",
        b"": "is no GGUF file",
        content[:4] + b"\1" + content[5:]: "GGUF version 1 is not supported; only 2 and 3",
        content[:8] + b"\xff" * 16 + content[24:]: "damaged or cut off",
    }.items():
        file.write_bytes(broken)
        with pytest.raises(ModelLoadError, match=message):
            resolve(str(file))
