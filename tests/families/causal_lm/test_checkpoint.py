"""What is told of a checkpoint without loading it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.causal_lm.checkpoint import inspect
from antiphon.families.causal_lm.language_model import load_runner
from antiphon.families.registry import checkpoint_family
from tests.families.causal_lm.random_checkpoint import make_checkpoint


def test_a_whole_checkpoint_has_no_problems(checkpoint_of: Callable[[str], Path]) -> None:
    for layout in ("llama", "omni"):
        path = checkpoint_of(layout)
        found = inspect(path)
        assert not found.problems
        assert "chat" in str(found.facts["Task"])
        assert found.tables[0].rows[0][1] == found.facts["Parameters"]
        assert checkpoint_family(path).name == "causal_lm"


def test_what_is_missing_or_strange_is_told_and_refused(checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "broken"
    shutil.copytree(checkpoint, path)
    make_checkpoint(tmp_path / "other", task="qwen2")
    shutil.copy(tmp_path / "other" / "model.safetensors", path)
    (path / "tokenizer.json").unlink()
    problems = " ".join(inspect(path).problems)
    assert "missing: lm_head.weight" in problems
    assert "self_attn.q_norm.weight" in problems
    assert "not part of such a model" in problems
    assert "no tokenizer.json" in problems
    shutil.copy(checkpoint / "tokenizer.json", path)
    with pytest.raises(ModelLoadError, match=r"missing: lm_head\.weight"):
        load_runner(LoadContext(path=path, device="cpu", max_slots=1))


def test_a_checkpoint_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_checkpoint(tmp_path / name, task="llama", seed=seed)
    one, same, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert one == same != other
    with pytest.raises(ModelLoadError, match="no task 'gpt'"):
        make_checkpoint(tmp_path, task="gpt")
