"""Checkpoints with vocab.json and merges.txt alone are read as transformers reads them."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from antiphon.errors import ModelLoadError
from antiphon.families.causal_lm.tokenizer import load_tokenizer

CORPUS = ["The quick brown fox jumps over the lazy dog 0123456789.", "你好世界，一只猫坐在桌子上"]
TEXTS = [
    "The fox's dog  jumps\n\nover 42 lazy cats.",
    "<|im_start|>user\n你好<|im_end|>\n<tool>",
    "cafe\u0301 naïve 🙂 ",
]


def write(folder: Path, kind: str) -> None:
    """Write a vocabulary with merges, and what transformers keeps beside them."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False)
    trained.train_from_iterator(CORPUS * 2, trainer)
    trained.model.save(str(folder))
    size = trained.get_vocab_size()
    names = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>")
    flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    added = {
        str(size + place): {"content": name, "special": name != "<tool>", **flags}
        for place, name in enumerate(names)
    }
    config = {
        "tokenizer_class": kind,
        "added_tokens_decoder": added,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>",
        "bos_token": None,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("kind", ["Qwen2Tokenizer", "GPT2Tokenizer"])
def test_ids_are_those_of_transformers(tmp_path: Path, kind: str) -> None:
    import transformers

    write(tmp_path, kind)
    official: Any = getattr(transformers, kind).from_pretrained(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert ids == official.encode(text, add_special_tokens=False)
        assert b"".join(map(tokenizer.token_bytes, ids)).decode() == official.decode(
            ids, clean_up_tokenization_spaces=False
        )
    ends = official.convert_tokens_to_ids("<|im_end|>")
    assert tokenizer.eos_ids(()) == (ends,)
    assert tokenizer.is_special(ends)
    assert not tokenizer.is_special(official.convert_tokens_to_ids("<tool>"))
    guarded = tokenizer.guarded("<|im_end|>")
    assert ends not in tokenizer.encode(guarded)


def test_other_classes_are_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path, "BertTokenizer")
    with pytest.raises(ModelLoadError, match="'tokenizer_class' is 'BertTokenizer'"):
        load_tokenizer(tmp_path)
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(ModelLoadError, match=r"no tokenizer\.json, and no vocab\.json"):
        load_tokenizer(tmp_path)
