"""A toy for tests, docs and examples: each letter is a tone, made by an AR loop and a tone codec.

It has every part of a real text-to-speech model, in a few lines of numpy: a prompter, a runner that
steps many requests at once, sampling by seed, and a codec that carries its phase from frame to
frame. Its second task draws images.
"""

from antiphon.models.spec import Family, ItemKind, Ref, StageKind, StageSpec, Task
from antiphon.types import ImageRequest, Sampling, SpeechRequest

_HERE = "antiphon.models.toy"

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
            pipeline=(
                StageSpec(
                    "painter",
                    StageKind.GENERATOR,
                    ItemKind.TEXT,
                    ItemKind.IMAGE,
                    Ref(f"{_HERE}.image:ToyPainter"),
                ),
            ),
        ),
    },
)
