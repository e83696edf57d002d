"""MiMo-Audio 7B in native PyTorch: a language model over 160 ms groups, and an audio tokenizer.

The weights are under the MIT licence, the official code under Apache-2.0. The audio tokenizer is a
separate repository, see `antiphon.families.mimo_audio.config`.
"""

from antiphon.contracts.chat_types import ChatRequest
from antiphon.contracts.family import Extra, Family, Measuring, Task
from antiphon.contracts.types import SpeechRequest
from antiphon.families.kit.folder import Folder
from antiphon.families.mimo_audio.options import FAMILY_NAME, TEXT, MiMoAudioOptions

_HERE = Folder(__name__)

_LANGUAGE_MODEL = _HERE.autoregressive("language model", weights=("*.safetensors",))
"""Stage of both tasks, loaded once; the first number of its frames is the text id."""

FAMILY = Family(
    name=FAMILY_NAME,
    title="MiMo-Audio 7B: speech in the style of instructions, with voices of recordings; chats",
    architectures=("MiMoAudioModel", "MiMoAudioForCausalLM"),
    needs_checkpoint=True,
    draws_weights=True,
    extra=Extra("torch", ("torch", "safetensors", "tokenizers")),
    inspector=_HERE("checkpoint:inspect"),
    checkpoint_maker=_HERE("sizes:make_checkpoint"),
    measuring=Measuring(),
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=_HERE("prompt:MiMoAudioPrompter"),
            options=MiMoAudioOptions,
            recordings=("ref_audio",),
            encoder=_HERE.encoder("voice encoder", "audio_encoder:load_voice_encoder"),
            pipeline=(
                _LANGUAGE_MODEL,
                _HERE.decoder("codec", weights=("MiMo-Audio-Tokenizer/*.safetensors",)),
            ),
            sampling=TEXT,
        ),
        "chat": Task(
            request=ChatRequest,
            prompter=_HERE("chat:MiMoChatPrompter"),
            pipeline=(_LANGUAGE_MODEL,),
        ),
    },
)
