"""VoxCPM2 in native PyTorch: two language models, per-step flow matching, and an AudioVAE.

Official checkpoints, such as openbmb/VoxCPM2, are under Apache-2.0.
"""

from antiphon.contracts.family import Extra, Family, Measuring, Task
from antiphon.contracts.types import SpeechRequest
from antiphon.families.kit.folder import Folder
from antiphon.families.voxcpm2.options import FAMILY_NAME, VoxCPM2Options

_HERE = Folder(__name__)

FAMILY = Family(
    name=FAMILY_NAME,
    title="VoxCPM2, 2B, 48 kHz: voices designed by a description or cloned from a recording",
    architectures=("voxcpm2",),
    files=("audiovae.pth",),
    needs_checkpoint=True,
    draws_weights=True,
    extra=Extra("torch", ("torch", "safetensors", "tokenizers")),
    inspector=_HERE("checkpoint:inspect"),
    footprint=_HERE("checkpoint:footprint"),
    checkpoint_maker=_HERE("sizes:make_checkpoint"),
    measuring=Measuring(frame_products=_HERE("checkpoint:frame_products"), frames_per_token=6),
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=_HERE("prompt:VoxCPM2Prompter"),
            options=VoxCPM2Options,
            recordings=("ref_audio", "prompt_audio"),
            encoder=_HERE.encoder("voice encoder", "audio_vae_stages:load_voice_encoder"),
            pipeline=(
                _HERE.autoregressive("language model", weights=("model*.safetensors",)),
                _HERE.decoder("audio vae", "audio_vae_stages:load_codec", weights=("audiovae.*",)),
            ),
        )
    },
)
