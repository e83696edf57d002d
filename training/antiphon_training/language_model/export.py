"""A whole checkpoint from a trained language model and a trained codec."""

import json
import shutil
from pathlib import Path

import torch

from antiphon_training.language_model.checkpoint import read_weights, write_weights

CODEC_DIRECTORY = "speech_tokenizer"
_FILES = (
    *("config.json", "generation_config.json", "preprocessor_config.json"),
    *("vocab.json", "merges.txt", "tokenizer_config.json"),
)


def export(language_model: Path, codec: Path, out: Path, *, max_file_mib: float = 1024.0) -> None:
    """Write a checkpoint that Antiphon and the official package load.

    Args:
        language_model: output of ``lm``.
        codec: directory of ``speech_tokenizer``: its configuration and weights.
        out: directory of the checkpoint.
        max_file_mib: largest file of the language model's weights, in MiB.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the codec has other codebooks than the language model.
    """
    _check_codebooks(language_model, codec)
    out.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        shutil.copyfile(language_model / name, out / name)
    weights = read_weights(language_model)
    write_weights(out, weights, dtype=torch.float16, max_bytes=int(max_file_mib * 2**20))
    (out / CODEC_DIRECTORY).mkdir(exist_ok=True)
    for file in sorted(codec.iterdir()):
        if file.suffix in (".json", ".safetensors"):
            shutil.copyfile(file, out / CODEC_DIRECTORY / file.name)


def _check_codebooks(language_model: Path, codec: Path) -> None:
    talker = json.loads((language_model / "config.json").read_text("utf-8"))["talker_config"]
    decoder = json.loads((codec / "config.json").read_text("utf-8"))["decoder_config"]
    ours = talker["num_code_groups"], talker["code_predictor_config"]["vocab_size"]
    theirs = decoder["num_quantizers"], decoder["codebook_size"]
    if ours != theirs:
        raise ValueError(
            f"{codec}: has {theirs[0]} codebooks of {theirs[1]} codes, the language model was"
            f" trained for {ours[0]} of {ours[1]}"
        )
