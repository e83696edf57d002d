"""Qwen3-TTS in native PyTorch: a talker, a code predictor and a streaming codec."""

from antiphon.contracts.family import Extra, Family, Measuring, Task
from antiphon.contracts.types import SpeechRequest
from antiphon.families.kit.folder import Folder
from antiphon.families.qwen3_tts.options import FAMILY_NAME, Qwen3TTSOptions

_HERE = Folder(__name__)

# Sampling defaults are the checkpoint's own (generation_config.json): the prompter fills them in.
FAMILY = Family(
    name=FAMILY_NAME,
    title="Qwen3-TTS 12 Hz, 0.6B and 1.7B: built-in, designed and cloned voices in ten languages",
    architectures=("Qwen3TTSForConditionalGeneration",),
    gguf=_HERE("gguf.folder:folder_of"),
    needs_checkpoint=True,
    draws_weights=True,
    quantizes=True,
    extra=Extra("torch", ("torch", "safetensors", "tokenizers")),
    inspector=_HERE("checkpoint:inspect"),
    footprint=_HERE("footprint:footprint"),
    checkpoint_maker=_HERE("sizes:make_checkpoint"),
    measuring=Measuring(frame_products=_HERE("footprint:frame_products"), is_usual=True),
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=_HERE("prompt:Qwen3TTSPrompter"),
            options=Qwen3TTSOptions,
            recordings=("ref_audio",),
            encoder=_HERE.encoder("voice encoder", "encoder:load_voice_encoder"),
            pipeline=(
                _HERE.autoregressive("talker", weights=("*.safetensors",)),
                _HERE.decoder(
                    "codec", "codec:load_codec", weights=("speech_tokenizer/*.safetensors",)
                ),
            ),
        )
    },
)
