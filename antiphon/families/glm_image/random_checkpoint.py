"""Makes checkpoints of random weights in the official layout, for tests and measurements."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, GlmImageTransformer2DModel
from torch import nn
from transformers import (
    ByT5Tokenizer,
    GlmImageConfig,
    GlmImageForConditionalGeneration,
    T5Config,
    T5EncoderModel,
)

from antiphon.diffusion.random_pipeline import RandomPipeline, write_pipeline
from antiphon.families.glm_image import random_configs as configs
from antiphon.families.glm_image.config import PRIOR_DIRECTORY, PROCESSOR_DIRECTORY
from antiphon.families.glm_image.random_processor import random_processor, special_ids, vocab_size
from antiphon.nn.random_weights import Dtype, check_arguments

TASKS = ("base",)


def make_checkpoint(
    path: Path,
    *,
    size: configs.Size,
    task: str = TASKS[0],
    vocabulary: str = "byte",
    seed: int = 0,
    dtype: Dtype = "float32",
    shards: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a checkpoint's directory; it may exist, and what it holds is replaced file by file.

    Args:
        path: the directory.
        size: ``"tiny"`` runs in seconds on a CPU; ``"16b"`` has the published sizes.
        task: ``"base"``: images from text.
        vocabulary: ``"byte"``: one that reads any text.
        seed: of all weights.
        dtype: of all weights.
        shards: files that the prior is spread over.
        progress: called with the bytes written so far and the bytes in all.

    Raises:
        ModelLoadError: an argument is none of these.
    """
    check_arguments(
        size=(size, get_args(configs.Size)), task=(task, TASKS), vocabulary=(vocabulary, ("byte",))
    )
    pipeline = RandomPipeline(
        pipeline="GlmImagePipeline",
        networks=_networks(size),
        others={
            "scheduler": FlowMatchEulerDiscreteScheduler(**configs.scheduler_config()),
            "tokenizer": ByT5Tokenizer(extra_ids=125),
            PROCESSOR_DIRECTORY: random_processor(size),
        },
        weights=configs.weights(size),
    )
    write_pipeline(path, pipeline, seed=seed, dtype=dtype, shards=shards, progress=progress)
    generation = configs.generation_config(size, special_ids(size)["<|endoftext|>"])
    file = path / PRIOR_DIRECTORY / "generation_config.json"
    file.write_text(json.dumps(generation, indent=2) + "\n", encoding="utf-8")


def _networks(size: configs.Size) -> dict[str, nn.Module]:
    ids = special_ids(size)
    prior = configs.prior_config(size, vocab_size(size), ids["<|image|>"], ids["<|endoftext|>"])
    with torch.device("meta"):
        return {
            PRIOR_DIRECTORY: GlmImageForConditionalGeneration(GlmImageConfig(**prior)),
            "text_encoder": T5EncoderModel(T5Config(**configs.text_encoder_config(size))),
            "transformer": GlmImageTransformer2DModel(**configs.transformer_config(size)),
            "vae": AutoencoderKL(**configs.vae_config(size)),
        }
