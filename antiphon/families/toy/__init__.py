"""A toy for tests, docs and examples: each letter is a tone, made by an AR loop and a tone codec.

It has every part of a real text-to-speech model, in a few lines of numpy: a prompter, a runner that
steps many requests at once, sampling by seed, and a codec that carries its phase from frame to
frame. It chats too: a language model of bytes. Its other tasks draw images and videos: a text
encoder, a denoiser, and a decoder of latents.
"""

from antiphon.contracts.chat_types import ChatRequest
from antiphon.contracts.family import Family, ItemKind, StageSpec, Task
from antiphon.contracts.picture_types import ImageRequest, VideoRequest
from antiphon.contracts.types import Sampling, SpeechRequest
from antiphon.families.kit.folder import Folder

_HERE = Folder(__name__)


def _drawing(made: ItemKind) -> tuple[StageSpec, ...]:
    return (
        _HERE.generator("text_encoder", "text_encoder:ToyTextEncoder", produces=ItemKind.LATENTS),
        _HERE.diffusion("denoiser", "denoiser:ToyDenoiser"),
        _HERE.generator("vae", "vae:ToyVae", consumes=ItemKind.LATENTS, produces=made),
    )


FAMILY = Family(
    name="toy",
    title="Tones instead of speech: a deterministic model for tests and examples",
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=_HERE("prompt:ToyPrompter"),
            pipeline=(
                _HERE.autoregressive("talker", "talker:ToyRunner"),
                _HERE.decoder("codec", "codec:ToneCodec"),
            ),
            sampling=Sampling(temperature=0.5, max_frames=2000),
        ),
        "image": Task(
            request=ImageRequest,
            prompter=_HERE("image:ToyImagePrompter"),
            pipeline=_drawing(ItemKind.IMAGE),
        ),
        "video": Task(
            request=VideoRequest,
            prompter=_HERE("video:ToyVideoPrompter"),
            pipeline=_drawing(ItemKind.VIDEO),
        ),
        "chat": Task(
            request=ChatRequest,
            prompter=_HERE("chat:ToyChatPrompter"),
            pipeline=(
                _HERE.autoregressive("chatter", "chatter:ToyChatRunner", produces=ItemKind.TOKENS),
            ),
        ),
    },
)
