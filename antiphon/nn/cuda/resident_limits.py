"""Limits of GPUs and of the CUDA programs, without torch, so that estimates can use them."""

from typing import Final

CAPABILITY: Final = (9, 0)
"""Compute capability of supported GPUs; code for 9.0a does not run on others."""
BFLOAT16_CAPABILITY: Final = (8, 0)
"""Least compute capability of GPUs with bfloat16."""
NUM_BLOCKS: Final = 128
"""Blocks of a program; the device needs as many multiprocessors."""
MAX_ROWS: Final = 8
"""Most rows of a program: the columns of a matrix instruction."""
