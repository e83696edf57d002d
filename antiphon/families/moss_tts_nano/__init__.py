"""MOSS-TTS-Nano: a model of 0.1B whose checkpoint brings its own code, and its own loop.

That code is run only if ``model.trust_remote_code`` says so. It streams: each of its events is a
chunk. It keeps the state of a request on the model, so that one request is spoken at a time.
"""

from antiphon.contracts.family import Extra, Family, ItemKind, Ref, StageKind, StageSpec, Task
from antiphon.contracts.types import Sampling, SpeechRequest

_HERE = "antiphon.families.moss_tts_nano"

FAMILY = Family(
    name="moss_tts_nano",
    title="MOSS-TTS-Nano, 0.1B, 48 kHz stereo, run by the code of its checkpoint",
    architectures=("MossTTSNanoForCausalLM",),
    needs_checkpoint=True,
    extra=Extra("omni", (("transformers", "transformers"), ("torch", "PyTorch"))),
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=Ref(f"{_HERE}.prompt:MossPrompter"),
            pipeline=(
                StageSpec(
                    "tts",
                    StageKind.GENERATOR,
                    ItemKind.TEXT,
                    ItemKind.AUDIO,
                    Ref(f"{_HERE}.generator:MossGenerator"),
                    max_concurrency=1,
                    weights=("*.safetensors", "*.bin", "*/*.safetensors", "*/*.bin"),
                ),
            ),
            # Those of the official program.
            sampling=Sampling(
                temperature=0.8, top_k=25, top_p=0.95, repetition_penalty=1.2, max_frames=375
            ),
        )
    },
    inspector=Ref(f"{_HERE}.checkpoint:inspect"),
    checkpoint_maker=Ref(f"{_HERE}.random_checkpoint:make_checkpoint"),
)
