"""Threads of PyTorch's products on a CPU: those of models, and those of codecs beside them.

PyTorch takes all cores by default. Its threads wait for each other at the end of every product, by
spinning: if anything else uses one of the cores, all of them wait for it.
"""

from concurrent.futures import ThreadPoolExecutor

import torch

_CODEC_SHARE = 4  # threads of a model for one of the codec beside it
_NUM_CORES = torch.get_num_threads()  # physical cores, or OMP_NUM_THREADS


def model_threads(cpu_threads: int | None) -> int:
    """Return the threads of a model's products.

    Args:
        cpu_threads: the setting; ``None``: PyTorch's own number but one, which is left to codecs,
            audio and everything else.
    """
    return max(_NUM_CORES - 1, 1) if cpu_threads is None else cpu_threads


def codec_pool() -> ThreadPoolExecutor:
    """Return a pool of one thread, whose products take a share of the threads of a model's."""
    num_threads = torch.get_num_threads()
    own = max(num_threads // _CODEC_SHARE, 1)
    pool = ThreadPoolExecutor(1, "codec", torch.set_num_threads, (own,))
    pool.submit(torch.get_num_threads).result()  # which fixes the number of that thread
    torch.set_num_threads(num_threads)  # threads that have not computed yet take the latest number
    return pool
