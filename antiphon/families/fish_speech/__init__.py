"""Fish Speech S2 and S1 at 44.1 kHz: a slow model over frames, and a fast one within each frame.

The weights are not free for commercial use; see `antiphon.families.fish_speech.config.LICENCE`.
"""

from antiphon.contracts.family import Extra, Family, Measuring, Task
from antiphon.contracts.types import SpeechRequest
from antiphon.families.fish_speech.options import FAMILY_NAME, FishSpeechOptions
from antiphon.families.kit.folder import Folder

_HERE = Folder(__name__)

FAMILY = Family(
    name=FAMILY_NAME,
    title="Fish Speech S2 and S1: voices cloned from recordings, many languages, 44.1 kHz"
    " (weights: research licence)",
    architectures=("fish_qwen3_omni", "dual_ar", "DualARTransformer"),
    files=("codec.pth", "model.pth", "tokenizer.tiktoken"),
    needs_checkpoint=True,
    draws_weights=True,
    extra=Extra("torch", ("torch", "safetensors", "tokenizers")),
    inspector=_HERE("checkpoint:inspect"),
    footprint=_HERE("checkpoint:footprint"),
    checkpoint_maker=_HERE("sizes:make_checkpoint"),
    measuring=Measuring(frame_products=_HERE("checkpoint:frame_products")),
    # The prompter fills in sampling defaults, because they depend on the checkpoint.
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=_HERE("prompt:FishSpeechPrompter"),
            options=FishSpeechOptions,
            recordings=("ref_audio",),
            encoder=_HERE.encoder(
                "voice encoder", "encoder:load_voice_encoder", weights=("codec.pth",)
            ),
            pipeline=(
                _HERE.autoregressive("language model", weights=("model*.safetensors", "model.pth")),
                _HERE.decoder("codec", weights=("codec.pth",)),
            ),
        )
    },
)
