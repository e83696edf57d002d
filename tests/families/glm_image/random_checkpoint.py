"""Whole checkpoints of random weights, made on top of the family's own files."""

from pathlib import Path

from antiphon.families.glm_image.checkpoint import prior_layout
from antiphon.families.glm_image.config import PRIOR_DIRECTORY, load_config
from antiphon.families.glm_image.sizes import make_checkpoint as without_weights
from tests.diffusion.random_pipeline import random_tensors, seed_of, write_weights
from tests.families.random_files import write_tensors
from tests.families.whole_checkpoints import Whole, WholeCheckpoints


def write_lively_weights(path: Path, making: Whole) -> None:
    write_weights(path, making, _lively(path))


def make_prior(path: Path) -> None:
    """Make a tiny checkpoint with the weights of its prior only, the same as in a whole one.

    Unlike other networks, the prior needs no diffusers.
    """
    without_weights(path)
    tensors = random_tensors(prior_layout(load_config(path)), _lively(path))
    write_tensors(path / PRIOR_DIRECTORY, tensors, seed_of(PRIOR_DIRECTORY, 0), "float32")


def _lively(path: Path) -> dict[str, tuple[float, float]]:
    """Return mean and deviation of tensors chosen so that codes vary.

    Attention must influence the logits more than the last code alone, or one code would repeat for
    ever; the likeliest code must be clear.
    """
    width = load_config(path).transformer.hidden_size
    return {
        r"model\.language_model\.embed_tokens\.weight": (0.0, 0.3),
        r"model\.language_model\..*\.[qk]_proj\.bias": (0.0, 1.0),
        r"model\.language_model\..*\.[qk]_proj\.weight": (0.0, 2.0 / width**0.5),
        r"lm_head\.weight": (0.0, 3.0 / width**0.5),
    }


make_checkpoint = WholeCheckpoints(without_weights, write_lively_weights)
