"""Whole checkpoints of random weights, made on top of the family's own files."""

from antiphon.families.ovis_image.sizes import make_checkpoint as without_weights
from tests.diffusion.random_pipeline import write_weights
from tests.families.whole_checkpoints import WholeCheckpoints

make_checkpoint = WholeCheckpoints(without_weights, write_weights)
