"""Qwen3-TTS in native PyTorch: a talker, a predictor inside each frame and a streaming codec."""

from antiphon.contracts.family import (
    Extra,
    Family,
    ItemKind,
    Measuring,
    Ref,
    StageKind,
    StageSpec,
    Task,
)
from antiphon.contracts.types import SpeechRequest
from antiphon.families.qwen3_tts.options import FAMILY_NAME, Qwen3TTSOptions

_HERE = "antiphon.families.qwen3_tts"

# Sampling defaults are the checkpoint's own (generation_config.json): the prompter fills them in.
FAMILY = Family(
    name=FAMILY_NAME,
    title="Qwen3-TTS 12 Hz, 0.6B and 1.7B: built-in, designed and cloned voices in ten languages",
    architectures=("Qwen3TTSForConditionalGeneration",),
    needs_checkpoint=True,
    draws_weights=True,
    extra=Extra(
        "torch",
        (("torch", "PyTorch"), ("safetensors", "safetensors"), ("tokenizers", "tokenizers")),
    ),
    inspector=Ref(f"{_HERE}.checkpoint:inspect"),
    footprint=Ref(f"{_HERE}.footprint:footprint"),
    checkpoint_maker=Ref(f"{_HERE}.random_checkpoint:make_checkpoint"),
    measuring=Measuring(
        frame_products=Ref(f"{_HERE}.footprint:frame_products"),
        is_usual=True,
    ),
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=Ref(f"{_HERE}.prompt:Qwen3TTSPrompter"),
            options=Qwen3TTSOptions,
            recordings=("ref_audio",),
            encoder=StageSpec(
                "voice encoder",
                StageKind.ENCODER,
                ItemKind.AUDIO,
                ItemKind.LATENTS,
                Ref(f"{_HERE}.voice_encoder:load_voice_encoder"),
                max_concurrency=16,
            ),
            pipeline=(
                StageSpec(
                    "talker",
                    StageKind.AUTOREGRESSIVE,
                    ItemKind.TEXT,
                    ItemKind.FRAMES,
                    Ref(f"{_HERE}.runner:load_runner"),
                    weights=("*.safetensors",),
                ),
                StageSpec(
                    "codec",
                    StageKind.DECODER,
                    ItemKind.FRAMES,
                    ItemKind.AUDIO,
                    Ref(f"{_HERE}.codec_stage:load_codec"),
                    weights=("speech_tokenizer/*.safetensors",),
                ),
            ),
        )
    },
)
