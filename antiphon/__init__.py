"""Antiphon serves text-to-speech models: exact streams, from a laptop to a cluster."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from antiphon.contracts.chat_types import ChatRequest, ChatSampling, Message
from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest, VideoRequest
from antiphon.contracts.types import AudioChunk, Sampling, SpeechRequest, Voice

if TYPE_CHECKING:
    from antiphon.contracts.prepared_voice import PreparedVoice
    from antiphon.offline import Antiphon, Audio

__version__ = "0.1.0"
__all__ = [
    "Antiphon",
    "Audio",
    "AudioChunk",
    "ChatRequest",
    "ChatSampling",
    "DiffusionParameters",
    "ImageRequest",
    "Message",
    "PreparedVoice",
    "Sampling",
    "SpeechRequest",
    "VideoRequest",
    "Voice",
    "__version__",
]
NO_USAGE_STATISTICS = {
    "GRADIO_ANALYTICS_ENABLED": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",  # that of transformers, diffusers and hf_xet, too
    "ORT_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Variables that keep dependencies from reporting their use to their makers.

onnxruntime and huggingface_hub read them when they are imported, and every process of ours imports
this package first. The environment wins.
"""
for _name, _value in NO_USAGE_STATISTICS.items():
    os.environ.setdefault(_name, _value)

_HEAVY = {
    "Antiphon": "antiphon.offline",
    "Audio": "antiphon.offline",
    "PreparedVoice": "antiphon.contracts.prepared_voice",
}


def __getattr__(name: str) -> Any:
    """Import the heavier names when they are used, so that ``import antiphon`` is quick."""
    if name in _HEAVY:
        return getattr(import_module(_HEAVY[name]), name)
    raise AttributeError(f"module 'antiphon' has no attribute '{name}'")
