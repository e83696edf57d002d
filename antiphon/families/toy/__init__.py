"""A toy for tests, docs and examples: each letter is a tone, made by an AR loop and a tone codec.

It has every part of a real text-to-speech model, in a few lines of numpy: a prompter, a runner that
steps many requests at once, sampling by seed, and a codec that carries its phase from frame to
frame. It chats too: a language model of bytes. Its other tasks draw images and videos: a text
encoder, a denoiser, and a decoder of latents.
"""

from antiphon.contracts.chat_types import ChatRequest
from antiphon.contracts.family import Family, ItemKind, Ref, StageKind, StageSpec, Task
from antiphon.contracts.picture_types import ImageRequest, VideoRequest
from antiphon.contracts.types import Sampling, SpeechRequest

_HERE = "antiphon.families.toy"


def _drawing(made: ItemKind) -> tuple[StageSpec, ...]:
    """Return the stages of a task that draws."""
    return (
        StageSpec(
            "text_encoder",
            StageKind.GENERATOR,
            ItemKind.TEXT,
            ItemKind.LATENTS,
            Ref(f"{_HERE}.text_encoder:ToyTextEncoder"),
        ),
        StageSpec(
            "denoiser",
            StageKind.DIFFUSION,
            ItemKind.LATENTS,
            ItemKind.LATENTS,
            Ref(f"{_HERE}.denoiser:ToyDenoiser"),
        ),
        StageSpec("vae", StageKind.GENERATOR, ItemKind.LATENTS, made, Ref(f"{_HERE}.vae:ToyVae")),
    )


FAMILY = Family(
    name="toy",
    title="Tones instead of speech: a deterministic model for tests and examples",
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=Ref(f"{_HERE}.prompt:ToyPrompter"),
            pipeline=(
                StageSpec(
                    "talker",
                    StageKind.AUTOREGRESSIVE,
                    ItemKind.TEXT,
                    ItemKind.FRAMES,
                    Ref(f"{_HERE}.talker:ToyRunner"),
                ),
                StageSpec(
                    "codec",
                    StageKind.DECODER,
                    ItemKind.FRAMES,
                    ItemKind.AUDIO,
                    Ref(f"{_HERE}.codec:ToneCodec"),
                ),
            ),
            sampling=Sampling(temperature=0.5, max_frames=2000),
        ),
        "image": Task(
            request=ImageRequest,
            prompter=Ref(f"{_HERE}.image:ToyImagePrompter"),
            pipeline=_drawing(ItemKind.IMAGE),
        ),
        "video": Task(
            request=VideoRequest,
            prompter=Ref(f"{_HERE}.video:ToyVideoPrompter"),
            pipeline=_drawing(ItemKind.VIDEO),
        ),
        "chat": Task(
            request=ChatRequest,
            prompter=Ref(f"{_HERE}.chat:ToyChatPrompter"),
            pipeline=(
                StageSpec(
                    "chatter",
                    StageKind.AUTOREGRESSIVE,
                    ItemKind.TEXT,
                    ItemKind.TOKENS,
                    Ref(f"{_HERE}.chatter:ToyChatRunner"),
                ),
            ),
        ),
    },
)
