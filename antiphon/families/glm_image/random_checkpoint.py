"""Writer of checkpoints with random weights in the official layout, for tests and benchmarks."""

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
from antiphon.families.kit.random_checkpoint import Making, checkpoint_maker, write_json

TASKS = ("base",)


@checkpoint_maker(sizes=get_args(configs.Size), tasks=TASKS)
def make_checkpoint(path: Path, making: Making) -> None:
    """Write a checkpoint that draws images from text."""
    size = making.size
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
    write_pipeline(
        path,
        pipeline,
        seed=making.seed,
        dtype=making.dtype,
        shards=making.shards,
        progress=making.progress,
    )
    generation = configs.generation_config(size, special_ids(size)["<|endoftext|>"])
    write_json(path / PRIOR_DIRECTORY / "generation_config.json", generation)


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
