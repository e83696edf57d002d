"""Writer of checkpoints with random weights in the official layout, for tests and benchmarks.

They are loaded by diffusers as by us, so that both can be compared where no published weights are
at hand. A seed gives the same weights on every machine.
"""

import string
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanTransformer3DModel
from transformers import (
    CLIPImageProcessorPil,
    CLIPVisionConfig,
    CLIPVisionModelWithProjection,
    T5Tokenizer,
    UMT5Config,
    UMT5EncoderModel,
)

from antiphon.diffusion.random_pipeline import RandomPipeline, write_pipeline
from antiphon.families.kit.random_checkpoint import Making, checkpoint_maker
from antiphon.families.wan_video.config import IMAGE_PIPELINE
from antiphon.families.wan_video.random_configs import SIZES, WanRecipe, recipe
from antiphon.nn.random_weights import check_arguments

_WORDS = "a the cat dog red blue runs sits on in of and with sun sea snow bright blurred static"


@checkpoint_maker(tasks=tuple(SIZES))
def make_checkpoint(path: Path, making: Making) -> None:
    """Write a checkpoint; the task is its layout.

    A layout has ``"tiny"`` and the sizes of its published checkpoints.
    """
    check_arguments(size=(making.size, SIZES[making.task]))
    tokenizer = _tokenizer()
    plan = recipe(making.task, making.size, len(tokenizer))
    pipeline = _pipeline(plan, tokenizer)
    write_pipeline(
        path,
        pipeline,
        seed=making.seed,
        dtype=making.dtype,
        shards=making.shards,
        progress=making.progress,
    )


def _pipeline(plan: WanRecipe, tokenizer: Any) -> RandomPipeline:
    networks: dict[str, Any] = {}
    others = {"tokenizer": tokenizer, "scheduler": _scheduler(plan.flow_shift)}
    with torch.device("meta"):
        config = UMT5Config(feed_forward_proj="gated-gelu", **plan.text_encoder)
        networks["text_encoder"] = UMT5EncoderModel(config)
        networks["transformer"] = WanTransformer3DModel(**plan.transformer)
        if plan.settings["boundary_ratio"] is not None:
            networks["transformer_2"] = WanTransformer3DModel(**plan.transformer)
        networks["vae"] = AutoencoderKLWan(**plan.vae)
        if plan.clip is not None:
            networks["image_encoder"] = CLIPVisionModelWithProjection(CLIPVisionConfig(**plan.clip))
            side = plan.clip["image_size"]
            others["image_processor"] = CLIPImageProcessorPil(size=side, crop_size=side)
    optional = ["transformer_2"]
    if plan.pipeline == IMAGE_PIPELINE:
        optional += ["image_encoder", "image_processor"]
    return RandomPipeline(
        pipeline=plan.pipeline,
        networks=networks,
        others=others,
        settings=plan.settings,
        missing=[name for name in optional if name not in {*networks, *others}],
    )


def _tokenizer() -> Any:
    """Return a tokenizer of letters and a few words."""
    pieces = {"<pad>": 0.0, "</s>": 0.0, "<unk>": 0.0, "▁": -2.0}
    pieces |= {f"▁{word}": -3.0 for word in _WORDS.split()}
    pieces |= {letter: -6.0 for letter in string.printable if not letter.isspace()}
    make: Any = T5Tokenizer
    return make(vocab=list(pieces.items()), extra_ids=0)


def _scheduler(flow_shift: float) -> Any:
    return UniPCMultistepScheduler(
        prediction_type="flow_prediction",
        use_flow_sigmas=True,
        num_train_timesteps=1000,
        flow_shift=flow_shift,
    )
