"""A toy for tests, docs and examples: each letter is a tone, made by an AR loop and a tone codec.

It has every part of a real text-to-speech model, in a few lines of numpy: a prompter, a runner that
steps many requests at once, sampling by seed, and a codec that carries its phase from frame to
frame.
"""

from antiphon.models.spec import Family, PipelineSpec, Ref, StageKind, StageSpec
from antiphon.types import Sampling

FAMILY = Family(
    name="toy",
    title="Tones instead of speech: a deterministic model for tests and examples",
    prompter=Ref("antiphon.models.toy.prompt:ToyPrompter"),
    pipeline=PipelineSpec(
        (
            StageSpec(
                "talker", StageKind.AUTOREGRESSIVE, Ref("antiphon.models.toy.talker:ToyRunner")
            ),
            StageSpec("codec", StageKind.DECODER, Ref("antiphon.models.toy.codec:ToneCodec")),
        )
    ),
    sampling=Sampling(temperature=0.5, max_frames=2000),
)
