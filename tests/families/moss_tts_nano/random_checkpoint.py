"""Writer of checkpoints in the official layout with their own code.

The code is a small one of this project. It shares with the published one only what the adapter
relies on: files, names of classes and methods, events, PyTorch's random numbers, a non-persistent
buffer, and request state on the model.
"""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from antiphon.families.moss_tts_nano.checkpoint import CODEC_DIRECTORY
from tests.families.whole_checkpoints import Whole, whole_checkpoints

SIZES = ("tiny",)
TASKS = ("custom_voice",)
_SOURCES = Path(__file__).parent / "random_repository"
_WIDTH, _CODES, _SAMPLES_PER_FRAME = 16, 64, 640
_MODEL = {
    "architectures": ["MossTTSNanoForCausalLM"],
    "auto_map": {
        "AutoConfig": "configuration_moss_tts_nano.MossTTSNanoConfig",
        "AutoModelForCausalLM": "modeling_moss_tts_nano.MossTTSNanoForCausalLM",
    },
    "model_type": "moss_tts_nano",
    "width": _WIDTH,
    "audio_vocab_size": _CODES,
}
_CODEC = {
    "architectures": ["MossAudioTokenizerModel"],
    "auto_map": {
        "AutoConfig": "modeling_moss_audio_tokenizer.MossAudioTokenizerConfig",
        "AutoModel": "modeling_moss_audio_tokenizer.MossAudioTokenizerModel",
    },
    "model_type": "moss-audio-tokenizer-nano",
    "sampling_rate": 8000,
    "downsample_rate": _SAMPLES_PER_FRAME,
    "codebook_size": _CODES,
}


@whole_checkpoints(sizes=SIZES, tasks=TASKS, dtypes=("float32",))
def make_checkpoint(path: Path, making: Whole) -> None:
    write_repositories(path, seed=making.seed)


def write_repositories(path: Path, *, seed: int = 0, channels: int = 1) -> None:
    random = np.random.default_rng(seed)
    codec = path / CODEC_DIRECTORY
    codec.mkdir(parents=True, exist_ok=True)
    for source in _SOURCES.glob("*.txt"):
        folder = codec if "audio_tokenizer" in source.name else path
        text = source.read_text(encoding="utf-8")
        (folder / source.name).with_suffix(".py").write_text(text, encoding="utf-8")
    _write_config(path, _MODEL)
    _write_config(codec, {**_CODEC, "number_channels": channels})
    embedding = _random(random, 256, _WIDTH)
    model = {
        "wte.weight": embedding,
        "text_head.weight": embedding.clone(),  # tied, but stored twice, as published
        "audio_embedding.weight": _random(random, _CODES, _WIDTH),
        "mix.weight": _random(random, _WIDTH, _WIDTH),
        "audio_head.weight": _random(random, _CODES, _WIDTH),
    }
    torch.save(model, path / "pytorch_model.bin")
    table = {"table.weight": _random(random, _CODES, channels * _SAMPLES_PER_FRAME) / 8}
    save_file(table, codec / "model-00001-of-00001.safetensors")


def _write_config(path: Path, config: dict[str, object]) -> None:
    (path / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")


def _random(random: np.random.Generator, *shape: int) -> torch.Tensor:
    return torch.from_numpy(random.normal(0, 0.5, shape).astype(np.float32))
