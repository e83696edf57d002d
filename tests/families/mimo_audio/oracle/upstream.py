"""The official modules, run in float32 where neither flash-attn nor their transformers is there.

They are found by ``MIMO_AUDIO_UPSTREAM``, the directory of a clone of XiaomiMiMo/MiMo-Audio, and
need transformers and einops. Their lines run as they are; only what they import from flash-attn,
and what newer versions of transformers lack, is put in its place.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from safetensors.torch import load_file
from torch import Tensor

SOURCE = os.environ.get("MIMO_AUDIO_UPSTREAM")


def import_upstream() -> tuple[Any, Any]:
    """Return the modules of the language model and of the audio tokenizer."""
    assert SOURCE is not None, "MIMO_AUDIO_UPSTREAM must name a clone"
    sys.path.insert(0, SOURCE)
    generation = import_module("transformers.generation.utils")
    import_module("transformers.models.qwen2.modeling_qwen2")  # it would ask about the stub
    stub = ModuleType("flash_attn")
    stub.flash_attn_varlen_func = attend  # type: ignore[attr-defined]
    sys.modules["flash_attn"] = stub

    for name in ("GenerateOutput", "is_deepspeed_zero3_enabled"):
        generation.__dict__.setdefault(name, object)
    language: Any = import_module("src.mimo_audio.modeling_mimo_audio")
    language.torch = _WideTorch()  # it adds embeddings up in bfloat16, whatever the weights are
    audio = import_module("src.mimo_audio_tokenizer.modeling_audio_tokenizer")
    return language, audio


class _WideTorch:
    """PyTorch, but that bfloat16 is float32."""

    bfloat16 = torch.float32

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    starts: Tensor,
    _starts_of_keys: Tensor,
    _longest: Tensor,
    _longest_of_keys: Tensor,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
) -> Tensor:
    """Do what flash-attn says that this function does, by PyTorch."""
    parts = []
    for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        distance = torch.arange(end - start)[None] - torch.arange(end - start)[:, None]
        mask = torch.ones_like(distance, dtype=torch.bool)
        left, right = window_size
        if left >= 0:
            mask &= distance >= -left
        if causal:
            mask &= distance <= 0
        elif right >= 0:
            mask &= distance <= right
        query, key, value = (
            each[start:end].transpose(0, 1)[None] for each in (queries, keys, values)
        )
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        parts.append(seen[0].transpose(0, 1))
    return torch.cat(parts)


def load_tokenizer(audio: Any, path: Path) -> Any:
    values = json.loads((path / "config.json").read_text())
    config = audio.MiMoAudioTokenizerConfig(**values)
    model = audio.MiMoAudioTokenizer(config).eval().float()
    model.load_state_dict(load_file(path / "model.safetensors"))
    return model


def load_model(language: Any, path: Path, ids: dict[str, int]) -> Any:
    """Load the official language model from its directory; ``ids`` of special tokens by field."""
    values = json.loads((path / "config.json").read_text())
    config = language.MiMoAudioConfig(**values)
    config._attn_implementation = "sdpa"
    arguments = language.MiMoAudioArguments(model_name_or_path=str(path), **ids)
    model = language.MiMoAudioForCausalLM(config, arguments).eval().float()
    model.load_state_dict(load_file(path / "model.safetensors"))
    return model
