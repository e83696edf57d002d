"""A checkpoint that speaks, and transformers' model of it."""

from pathlib import Path
from typing import Any

import pytest

from antiphon.contracts.family import LoadContext
from tests.families.causal_lm.random_checkpoint import make_checkpoint


@pytest.fixture(scope="session")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("omni_voice")
    make_checkpoint(path, size="tiny", task="omni_voice")
    return path


@pytest.fixture(scope="session")
def context(speaking: Path) -> LoadContext:
    return LoadContext(path=speaking, device="cpu", dtype="float32", max_slots=3)


@pytest.fixture(scope="session")
def reference(speaking: Path) -> Any:
    """Transformers' model; its parts that see and hear are tiny, and not of the checkpoint."""
    torch, transformers = (
        pytest.importorskip("torch", reason="needs the extra 'torch'"),
        pytest.importorskip("transformers", reason="needs the extra 'omni'"),
    )
    config = transformers.Qwen2_5OmniConfig.from_pretrained(speaking)
    for name in ("vision_start_token_id", "audio_start_token_id"):
        setattr(config.thinker_config, name, 151652)  # of no text
    audio, vision = config.thinker_config.audio_config, config.thinker_config.vision_config
    audio.encoder_layers, audio.d_model, audio.encoder_ffn_dim = 1, 16, 16
    audio.encoder_attention_heads, audio.output_dim = 2, 96
    vision.depth, vision.hidden_size, vision.intermediate_size = 1, 16, 16
    vision.num_heads, vision.out_hidden_size = 2, 96
    kind = transformers.Qwen2_5OmniForConditionalGeneration
    return kind.from_pretrained(speaking, config=config, dtype=torch.float32).eval()
