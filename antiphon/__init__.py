"""Antiphon serves text-to-speech models: exact streams, from a laptop to a cluster."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from antiphon.types import AudioChunk, Sampling, SpeechRequest, Voice

if TYPE_CHECKING:
    from antiphon.offline import Antiphon, Audio

__version__ = "0.1.0"
__all__ = ["Antiphon", "Audio", "AudioChunk", "Sampling", "SpeechRequest", "Voice", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the heavier names when they are used, so that ``import antiphon`` is quick."""
    if name in ("Antiphon", "Audio"):
        return vars(import_module("antiphon.offline"))[name]
    raise AttributeError(f"module 'antiphon' has no attribute '{name}'")
