"""VoxCPM2 in native PyTorch: two language models, flow matching inside each step, an AudioVAE.

Official checkpoints, such as openbmb/VoxCPM2, are under Apache-2.0.
"""

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
from antiphon.families.voxcpm2.options import FAMILY_NAME, VoxCPM2Options

_HERE = "antiphon.families.voxcpm2"

FAMILY = Family(
    name=FAMILY_NAME,
    title="VoxCPM2, 2B, 48 kHz: voices designed by a description or cloned from a recording",
    architectures=("voxcpm2",),
    files=("audiovae.pth",),
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
        frames_per_token=6,
    ),
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=Ref(f"{_HERE}.prompt:VoxCPM2Prompter"),
            options=VoxCPM2Options,
            recordings=("ref_audio", "prompt_audio"),
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
                    "language model",
                    StageKind.AUTOREGRESSIVE,
                    ItemKind.TEXT,
                    ItemKind.FRAMES,
                    Ref(f"{_HERE}.runner:load_runner"),
                    weights=("model*.safetensors",),
                ),
                StageSpec(
                    "audio vae",
                    StageKind.DECODER,
                    ItemKind.FRAMES,
                    ItemKind.AUDIO,
                    Ref(f"{_HERE}.codec_stage:load_codec"),
                    weights=("audiovae.*",),
                ),
            ),
        )
    },
)
