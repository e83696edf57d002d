"""Where the programs run, and what they serve; without torch, for estimates, too."""

from typing import Final

CAPABILITY: Final = (9, 0)
"""Of the GPUs that the programs are written for; code for 9.0a does not run on others."""
NUM_BLOCKS: Final = 128
"""Of a program; as many multiprocessors have to be there."""
MAX_ROWS: Final = 8
"""That a program serves: the columns of a matrix instruction."""
