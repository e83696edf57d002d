"""How Python's interpreter is set where many streams are served."""

import gc
import sys

_FULL_COLLECTION_RATIO = 100
"""Collections of the middle generation for each full one; Python's default is 10."""
_SWITCH_S = 0.5e-3
"""After which a thread lets another one run that waits; Python's default is ten times as long."""


def set_for_streams() -> None:
    """Keep pauses short in which no thread, or only one of them, can run.

    A full collection goes over all that open streams hold: 500 objects for each WebSocket, 190 ms
    with 480 of them, every ten seconds by default. An engine's thread that has to launch a step
    waits while another one computes: up to the switch interval, which may be as long as the step.
    """
    gc.set_threshold(*gc.get_threshold()[:2], _FULL_COLLECTION_RATIO)
    sys.setswitchinterval(_SWITCH_S)
