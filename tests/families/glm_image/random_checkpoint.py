"""Whole checkpoints of random weights, made on top of the family's own files."""

from pathlib import Path

from antiphon.families.glm_image.config import load_config
from antiphon.families.glm_image.sizes import make_checkpoint as without_weights
from antiphon.families.kit.random_checkpoint import Making
from tests.diffusion.random_pipeline import write_weights
from tests.families.whole_checkpoints import WholeCheckpoints


def write_lively_weights(path: Path, making: Making) -> None:
    """Write weights; some are chosen so that codes vary.

    Attention must influence the logits more than the last code alone, or one code would repeat for
    ever; the likeliest code must be clear.
    """
    width = load_config(path).transformer.hidden_size
    lively = {
        r"model\.language_model\.embed_tokens\.weight": (0.0, 0.3),
        r"model\.language_model\..*\.[qk]_proj\.bias": (0.0, 1.0),
        r"model\.language_model\..*\.[qk]_proj\.weight": (0.0, 2.0 / width**0.5),
        r"lm_head\.weight": (0.0, 3.0 / width**0.5),
    }
    write_weights(path, making, lively)


make_checkpoint = WholeCheckpoints(without_weights, write_lively_weights)
