"""Files of the language model in a CustomVoice checkpoint: configuration and weights."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from antiphon_training.language_model.sizes import LayerSizes, ModelSizes
from antiphon_training.language_model.tokenizer import Vocabulary

STEM = "model"
_SPEAKER_IDS = (3066, 3065, 3010, 3061, 2861, 2873, 2864, 2875, 2878)
"""Ids of the published speakers, in the order in which ours take them."""


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """Ids of prompts.

    Attributes:
        role: start of the turn, three text ids.
        speakers: ids of the codec's vocabulary by name.
    """

    role: tuple[int, ...]
    tts_pad: int
    tts_bos: int
    tts_eos: int
    speakers: Mapping[str, int]
    codec_pad: int = 2148
    codec_bos: int = 2149
    codec_eos: int = 2150
    think: int = 2154
    nothink: int = 2155
    think_bos: int = 2156
    think_eos: int = 2157
    english: int = 2050

    @classmethod
    def of(cls, vocabulary: Vocabulary, speakers: list[str]) -> "SpecialIds":
        """Return the ids of a vocabulary; speakers take the published speakers' ids."""
        ids = vocabulary.ids
        role = (ids["<|im_start|>"], ids["assistant"], ids["\u010a"])
        tts = (ids["<tts_pad>"], ids["<tts_text_bos>"], ids["<tts_text_eod>"])
        return cls(role, *tts, dict(zip(speakers, _SPEAKER_IDS, strict=False)))


def write_configuration(
    directory: Path, sizes: ModelSizes, vocabulary: Vocabulary, speakers: Mapping[str, int]
) -> None:
    """Write all files of a checkpoint's directory but the weights and the codec."""
    vocabulary.write(directory)
    configs = _official_configs()
    ids, main = vocabulary.ids, configs["config.json"]
    main |= {
        "tts_model_size": "0b6",
        "tts_model_type": "custom_voice",
        "assistant_token_id": ids["assistant"],
        "im_start_token_id": ids["<|im_start|>"],
        "im_end_token_id": ids["<|im_end|>"],
        "tts_pad_token_id": ids["<tts_pad>"],
        "tts_bos_token_id": ids["<tts_text_bos>"],
        "tts_eos_token_id": ids["<tts_text_eod>"],
        "dtype": "float16",
        "words_only": True,
    }
    talker = main["talker_config"]
    quarter = sizes.talker.head_dim // 2 // 3
    sections = [sizes.talker.head_dim // 2 - 2 * quarter, quarter, quarter]
    talker |= _layers(sizes.talker) | {
        "text_hidden_size": sizes.text_hidden_size,
        "text_vocab_size": sizes.text_vocab_size,
        "codec_language_id": {"english": talker["codec_language_id"]["english"]},
        "spk_id": dict(speakers),
        "spk_is_dialect": dict.fromkeys(speakers, False),
        "rope_scaling": talker["rope_scaling"] | {"mrope_section": sections},
        "code_predictor_config": talker["code_predictor_config"]
        | _layers(sizes.predictor)
        | {"vocab_size": sizes.codebook_size},
    }
    # The penalty serves models that loop; ours was trained without one.
    configs["generation_config.json"] |= {
        "temperature": 0.4,
        "top_k": 10,
        "subtalker_temperature": 0.4,
        "repetition_penalty": 1.0,
        "max_new_tokens": 2048,
    }
    for name in ("config.json", "generation_config.json", "preprocessor_config.json"):
        text = json.dumps(configs[name], indent=2) + "\n"
        (directory / name).write_text(text, encoding="utf-8")


def write_weights(
    directory: Path, tensors: Mapping[str, Tensor], *, dtype: torch.dtype, max_bytes: int
) -> list[Path]:
    """Write tensors in files of at most ``max_bytes`` each, with an index if there are several."""
    shards: list[dict[str, Tensor]] = [{}]
    num_bytes = 0
    for name, tensor in tensors.items():
        stored = tensor.detach().to("cpu", dtype).contiguous()
        if shards[-1] and num_bytes + stored.nbytes > max_bytes:
            shards.append({})
            num_bytes = 0
        shards[-1][name] = stored
        num_bytes += stored.nbytes
    for old in directory.glob(f"{STEM}*.safetensors*"):
        old.unlink()
    files = [_shard(directory, number, len(shards)) for number in range(1, len(shards) + 1)]
    for file, shard in zip(files, shards, strict=True):
        save_file(shard, file, metadata={"format": "pt"})
    if len(files) > 1:
        places = [(file.name, shard) for file, shard in zip(files, shards, strict=True)]
        total = sum(tensor.nbytes for shard in shards for tensor in shard.values())
        index = {
            "metadata": {"total_size": total},
            "weight_map": {name: file for file, shard in places for name in shard},
        }
        text = json.dumps(index, indent=2) + "\n"
        (directory / f"{STEM}.safetensors.index.json").write_text(text, encoding="utf-8")
    return files


def read_weights(directory: Path) -> dict[str, Tensor]:
    """Return all tensors of a directory's files, in float32."""
    tensors: dict[str, Tensor] = {}
    for file in sorted(directory.glob(f"{STEM}*.safetensors")):
        tensors |= load_file(file)
    return {name: tensor.float() for name, tensor in tensors.items()}


def _shard(directory: Path, number: int, num_shards: int) -> Path:
    if num_shards == 1:
        return directory / f"{STEM}.safetensors"
    return directory / f"{STEM}-{number:05d}-of-{num_shards:05d}.safetensors"


def _layers(sizes: LayerSizes) -> dict[str, int]:
    return {
        "hidden_size": sizes.hidden_size,
        "intermediate_size": sizes.intermediate_size,
        "num_hidden_layers": sizes.num_layers,
        "num_attention_heads": sizes.num_heads,
        "num_key_value_heads": sizes.num_kv_heads,
        "head_dim": sizes.head_dim,
    }


def _official_configs() -> dict[str, dict[str, Any]]:
    """Return what all checkpoints of the family have in common.

    The file is read without the package, which may lack its dependencies on a training machine.
    """
    spec = find_spec("antiphon")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("antiphon is not installed, and not on the path")
    file = Path(spec.submodule_search_locations[0]) / "families" / "qwen3_tts" / "sizes.json"
    files = json.loads(file.read_text(encoding="utf-8"))
    return {name: parts["common"] for name, parts in files.items()}
