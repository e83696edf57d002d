"""Rows that a CPU computes together, each of them to the bit as if it were alone."""

MAX_EXACT_ROWS = 8
_SHARED_FROM = 32768  # numbers, from which on PyTorch shares an operation among threads


def num_exact_rows(width: int) -> int:
    """Return how many rows are computed together by layers whose products are exact for any rows.

    Their other operations are exact while one thread computes them: the last numbers of a thread's
    share may be computed by another function, and which they are depends on the number of rows.

    Args:
        width: numbers of a row in the widest operation that rounds.
    """
    return min(max(_SHARED_FROM // width, 1), MAX_EXACT_ROWS)
