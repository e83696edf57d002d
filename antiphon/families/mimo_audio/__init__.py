"""MiMo-Audio 7B in native PyTorch: a language model over groups of 160 ms, and its tokenizer.

The weights are under the MIT licence, the official code under Apache-2.0. The audio tokenizer is a
repository of its own, see `antiphon.families.mimo_audio.tokenizer_path`.
"""

from antiphon.contracts.chat_types import ChatRequest
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
from antiphon.contracts.types import Sampling, SpeechRequest
from antiphon.families.mimo_audio.options import FAMILY_NAME, MiMoAudioOptions

_HERE = "antiphon.families.mimo_audio"

_LANGUAGE_MODEL = StageSpec(
    "language model",
    StageKind.AUTOREGRESSIVE,
    ItemKind.TEXT,
    ItemKind.FRAMES,
    Ref(f"{_HERE}.runner:load_runner"),
    weights=("*.safetensors",),
)
"""Of both tasks, and in memory once: what it writes is the first number of its frames."""

FAMILY = Family(
    name=FAMILY_NAME,
    title="MiMo-Audio 7B: speech in the style of instructions, with voices of recordings; chats",
    architectures=("MiMoAudioModel", "MiMoAudioForCausalLM"),
    needs_checkpoint=True,
    extra=Extra(
        "torch",
        (("torch", "PyTorch"), ("safetensors", "safetensors"), ("tokenizers", "tokenizers")),
    ),
    inspector=Ref(f"{_HERE}.checkpoint:inspect"),
    checkpoint_maker=Ref(f"{_HERE}.random_checkpoint:make_checkpoint"),
    measuring=Measuring(
        edit_weights=Ref(f"{_HERE}.bench_spec:make_all_audio"),
    ),
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=Ref(f"{_HERE}.prompt:MiMoAudioPrompter"),
            options=MiMoAudioOptions,
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
                _LANGUAGE_MODEL,
                StageSpec(
                    "codec",
                    StageKind.DECODER,
                    ItemKind.FRAMES,
                    ItemKind.AUDIO,
                    Ref(f"{_HERE}.codec_stage:load_codec"),
                    weights=("MiMo-Audio-Tokenizer/*.safetensors",),
                ),
            ),
            # Those of the official program.
            sampling=Sampling(
                temperature=0.6, top_k=0, top_p=1.0, repetition_penalty=1.0, max_frames=1500
            ),
        ),
        "chat": Task(
            request=ChatRequest,
            prompter=Ref(f"{_HERE}.chat:MiMoChatPrompter"),
            pipeline=(_LANGUAGE_MODEL,),
        ),
    },
)
