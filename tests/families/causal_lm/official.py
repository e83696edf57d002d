"""transformers' own model of a checkpoint that Antiphon reads as a language model."""

import json
import re
from pathlib import Path
from typing import Any

import torch

from antiphon.families.causal_lm.checkpoint import model_part
from antiphon.families.causal_lm.config import load_config
from antiphon.families.kit.random_checkpoint import has_drawn_weights
from antiphon.nn.weights import open_weights


def official_thinker(path: Path, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Any:
    """Return transformers' thinker with ears and eyes that are small, and not in the checkpoint."""
    from transformers import Qwen2_5OmniThinkerConfig, Qwen2_5OmniThinkerForConditionalGeneration

    config = json.loads((path / "config.json").read_text())
    text = config.get("thinker_config", config)["text_config"]
    kind: Any = Qwen2_5OmniThinkerConfig
    made = kind(
        text_config=text,
        vision_start_token_id=151652,
        audio_start_token_id=151647,
        audio_config={"d_model": 16, "encoder_layers": 1, "encoder_ffn_dim": 16, "output_dim": 96}
        | {"encoder_attention_heads": 2},
        vision_config={"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2}
        | {"out_hidden_size": 96},
    )
    model: Any = Qwen2_5OmniThinkerForConditionalGeneration
    with torch.device(device):
        official = model._from_config(made, dtype=dtype).eval()
    like = torch.empty(0, device=device, dtype=dtype)
    part = model_part(path, load_config(path))
    with open_weights(part, like=like, is_dummy=has_drawn_weights(path)) as stored:
        weights = {
            re.sub(r"^model\.", "model.language_model.", name.removeprefix("thinker.")): tensor
            for name, tensor in stored.items()
        }
    missing, unknown = official.load_state_dict(weights, strict=False)
    assert not unknown
    assert all(name.startswith(("model.audio_tower.", "model.visual.")) for name in missing)
    return official
