"""Memory that the C library keeps although it is free."""

import ctypes
import sys


def trim_heap() -> None:
    """Return free memory to the system: glibc keeps what lies between allocations in use.

    Packing weights leaves hundreds of megabytes of it. Other C libraries return it themselves.
    """
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        if hasattr(library, "malloc_trim"):  # musl has no such function
            library.malloc_trim(0)
