"""Checkpoints that transformers itself saved: answers equal its own."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.causal_lm.checkpoint import inspect
from antiphon.families.causal_lm.language_model import load_runner
from antiphon.families.causal_lm.prompt import CausalLMPrompter
from tests.engine.drive import tokens_of
from tests.families.causal_lm.answers import greedy, ids_of

TEXT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 264,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,
    "bos_token_id": None,
    "eos_token_id": 258,
    "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2]},
}
AUDIO = {"d_model": 16, "encoder_layers": 1, "encoder_ffn_dim": 16, "output_dim": 32}
AUDIO |= {"encoder_attention_heads": 2}
VISION = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2}
VISION |= {"out_hidden_size": 32}


@pytest.fixture(scope="module")
def saved(
    tmp_path_factory: pytest.TempPathFactory, checkpoint_of: Callable[[str], Path]
) -> tuple[Path, Any]:
    """Save a whole Qwen2.5-Omni with the library's own defaults."""
    from transformers import Qwen2_5OmniConfig, Qwen2_5OmniForConditionalGeneration

    path = tmp_path_factory.mktemp("saved")
    for file in checkpoint_of("omni").glob("tokenizer*"):
        shutil.copy(file, path)
    thinker: dict[str, Any] = {"text_config": TEXT, "audio_config": AUDIO, "vision_config": VISION}
    thinker["vision_start_token_id"] = 151652
    make: Any = Qwen2_5OmniConfig
    torch.manual_seed(0)
    whole: Any = Qwen2_5OmniForConditionalGeneration(
        make(thinker_config=thinker, enable_audio_output=False)
    )
    whole.save_pretrained(path)
    return path, whole.thinker.eval()


def context_of(path: Path) -> LoadContext:
    return LoadContext(path=path, device="cpu", dtype="float32", max_slots=2)


def edit(path: Path, changed: Path, **keys: Any) -> Path:
    """Copy a checkpoint and change keys of its thinker's section."""
    shutil.copytree(path, changed)
    config = json.loads((path / "config.json").read_text())
    config["thinker_config"] |= keys
    (changed / "config.json").write_text(json.dumps(config))
    return changed


def test_the_head_is_that_of_the_outer_section(saved: tuple[Path, Any]) -> None:
    path, official = saved
    config = json.loads((path / "config.json").read_text())["thinker_config"]
    assert config["text_config"]["tie_word_embeddings"] != config["tie_word_embeddings"]
    assert not inspect(path).problems
    prompter, runner = CausalLMPrompter(context_of(path)), load_runner(context_of(path))
    prompts = {slot: greedy(prompter, text) for slot, text in enumerate(("Hello", "Why so?"))}
    for slot, written in tokens_of(runner, prompts).items():
        ids = torch.tensor([ids_of(prompts[slot])])
        made = official.generate(ids, max_new_tokens=40, do_sample=False)
        wanted = made[0, ids.shape[1] :].tolist()
        assert written == [token for token in wanted if token != TEXT["eos_token_id"]]


def test_a_tied_checkpoint_with_a_head_of_its_own_is_refused(
    saved: tuple[Path, Any], tmp_path: Path
) -> None:
    path, _ = saved
    changed = edit(path, tmp_path / "tied", tie_word_embeddings=True)
    message = r"'thinker.lm_head.weight' differs from 'thinker.model.embed_tokens.weight'"
    with pytest.raises(ModelLoadError, match=message):
        load_runner(context_of(changed))
    assert any("tie_word_embeddings" in each for each in inspect(changed).problems)
    file = changed / "model.safetensors"
    weights = load_file(file)
    weights["thinker.lm_head.weight"] = weights["thinker.model.embed_tokens.weight"].clone()
    save_file(weights, file)
    assert not inspect(changed).problems
    load_runner(context_of(changed))


def test_ids_that_end_an_answer_are_read_at_each_level(
    saved: tuple[Path, Any], tmp_path: Path
) -> None:
    from antiphon.families.causal_lm.config import load_config

    changed = edit(saved[0], tmp_path / "outer", eos_token_id=[257, 256])
    (changed / "generation_config.json").unlink()
    assert load_config(changed).eos_ids == (257, 256)
