"""A family with checkpoints, but nothing that could tell of them."""

from dataclasses import replace

from tests import faulty

FAMILY = replace(faulty.FAMILY, name="untold", architectures=("Untold",), needs_checkpoint=True)
