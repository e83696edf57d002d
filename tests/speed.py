"""The speed of this machine, by which tests scale what they allow of CPU time."""

import json
import re
import time

REFERENCE_S = 0.0085
"""CPU time of ``_work`` on a quiet core of an AMD EPYC 9004 at 2.6 GHz (KVM), with Python 3.11.

The limits of the tests, such as 50 ms without a turn of the event loop, hold for such a core.
"""
_NUM_TIMES = 5
_TEXT = "Hello there, 你好。 <b>1,234.5</b> and [so] on. " * 4_000
_MARKED = re.compile(r"<[a-z]+>|\[[a-z]+\]|\d+(?:,\d+)*")


def slowness() -> float:
    """Return how many times longer than on the reference this machine takes, at least 1.

    The shortest of several times counts, since neighbors and interrupts only make work longer.
    """
    return max(1.0, min(_work_s() for _ in range(_NUM_TIMES)) / REFERENCE_S)


def _work_s() -> float:
    """Return the CPU time of a fixed piece of work on text, as a server does much of it."""
    began_s = time.thread_time()
    text = json.loads(json.dumps([_MARKED.sub(" ", _TEXT)]))[0]
    sum(character.isspace() for character in text)
    return time.thread_time() - began_s
