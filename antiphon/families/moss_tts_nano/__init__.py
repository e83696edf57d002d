"""MOSS-TTS-Nano: a 0.1B model whose checkpoint contains its own code, including its loop.

The code runs only with ``model.trust_remote_code``. It streams: each of its events becomes a chunk.
It stores the state of a request on the model, so that requests run one at a time.
"""

from antiphon.contracts.family import Extra, Family, Task
from antiphon.contracts.types import Sampling, SpeechRequest
from antiphon.families.kit.folder import Folder

_HERE = Folder(__name__)

FAMILY = Family(
    name="moss_tts_nano",
    title="MOSS-TTS-Nano, 0.1B, 48 kHz stereo, run by the code of its checkpoint",
    architectures=("MossTTSNanoForCausalLM",),
    needs_checkpoint=True,
    extra=Extra("omni", ("transformers", "torch")),
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=_HERE("prompt:MossPrompter"),
            pipeline=(
                _HERE.generator(
                    "tts",
                    "generator:MossGenerator",
                    max_concurrency=1,
                    weights=("*.safetensors", "*.bin", "*/*.safetensors", "*/*.bin"),
                ),
            ),
            # Defaults of the official program.
            sampling=Sampling(
                temperature=0.8, top_k=25, top_p=0.95, repetition_penalty=1.2, max_frames=375
            ),
        )
    },
    inspector=_HERE("checkpoint:inspect"),
)
