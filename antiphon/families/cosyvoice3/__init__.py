"""CosyVoice3 (Fun-CosyVoice3-0.5B): cloned voices by a language model, flow matching and a vocoder.

The weights are Apache-2.0, by the FunAudioLLM team. The encoders of reference audio are ONNX files,
which ONNX Runtime runs.
"""

from antiphon.contracts.family import Extra, Family, Measuring, Task
from antiphon.contracts.types import Sampling, SpeechRequest
from antiphon.families.cosyvoice3.options import FAMILY_NAME, CosyVoice3Options
from antiphon.families.kit.folder import Folder

_HERE = Folder(__name__)

FAMILY = Family(
    name=FAMILY_NAME,
    title="CosyVoice3 0.5B: cloned voices in nine languages, with instructions, 24 kHz",
    files=(
        *("llm.pt", "flow.pt", "hift.pt", "spk2info.pt", "cosyvoice3.yaml"),
        *("campplus.onnx", "speech_tokenizer_v3.onnx"),
    ),
    layout=("cosyvoice3.yaml",),
    needs_checkpoint=True,
    draws_weights=True,
    quantizes=True,
    extra=Extra("torch", ("torch", "tokenizers")),
    inspector=_HERE("checkpoint:inspect"),
    checkpoint_maker=_HERE("sizes:make_checkpoint"),
    measuring=Measuring(frame_products=_HERE("checkpoint:frame_products"), dtype="float32"),
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=_HERE("prompt:CosyVoice3Prompter"),
            options=CosyVoice3Options,
            recordings=("ref_audio",),
            sampling=Sampling(temperature=1.0, top_k=25, top_p=0.8),
            encoder=_HERE.encoder(
                "voice encoder", "voice_encoder:CosyVoice3VoiceEncoder", max_concurrency=1
            ),
            pipeline=(
                _HERE.autoregressive("language model", weights=("llm.pt",)),
                _HERE.decoder(
                    "flow and vocoder", "decoder:load_decoder", weights=("flow.pt", "hift.pt")
                ),
            ),
        )
    },
)
