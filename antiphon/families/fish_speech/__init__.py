"""Fish Speech S2 and S1: two autoregressive models, one inside the other's frames, at 44.1 kHz.

The weights are not free for commercial use; see `antiphon.families.fish_speech.config.LICENCE`.
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
from antiphon.families.fish_speech.options import FAMILY_NAME, FishSpeechOptions

_HERE = "antiphon.families.fish_speech"

FAMILY = Family(
    name=FAMILY_NAME,
    title="Fish Speech S2 and S1: voices cloned from recordings, many languages, 44.1 kHz"
    " (weights: research licence)",
    architectures=("fish_qwen3_omni", "dual_ar", "DualARTransformer"),
    files=("codec.pth", "model.pth", "tokenizer.tiktoken"),
    needs_checkpoint=True,
    extra=Extra(
        "torch",
        (("torch", "PyTorch"), ("safetensors", "safetensors"), ("tokenizers", "tokenizers")),
    ),
    inspector=Ref(f"{_HERE}.checkpoint:inspect"),
    footprint=Ref(f"{_HERE}.footprint:footprint"),
    checkpoint_maker=Ref(f"{_HERE}.random_checkpoint:make_checkpoint"),
    measuring=Measuring(
        frame_products=Ref(f"{_HERE}.footprint:frame_products"),
    ),
    # Sampling defaults depend on the checkpoint: the prompter fills them in.
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=Ref(f"{_HERE}.prompt:FishSpeechPrompter"),
            options=FishSpeechOptions,
            recordings=("ref_audio",),
            encoder=StageSpec(
                "voice encoder",
                StageKind.ENCODER,
                ItemKind.AUDIO,
                ItemKind.LATENTS,
                Ref(f"{_HERE}.voice_encoder:load_voice_encoder"),
                max_concurrency=16,
                weights=("codec.pth",),
            ),
            pipeline=(
                StageSpec(
                    "language model",
                    StageKind.AUTOREGRESSIVE,
                    ItemKind.TEXT,
                    ItemKind.FRAMES,
                    Ref(f"{_HERE}.runner:load_runner"),
                    weights=("model*.safetensors", "model.pth"),
                ),
                StageSpec(
                    "codec",
                    StageKind.DECODER,
                    ItemKind.FRAMES,
                    ItemKind.AUDIO,
                    Ref(f"{_HERE}.codec_stage:load_codec"),
                    weights=("codec.pth",),
                ),
            ),
        )
    },
)
