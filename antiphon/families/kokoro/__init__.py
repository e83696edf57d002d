"""Kokoro-82M: 54 voices of nine languages from one small network that speaks a sentence at once.

Its weights are Apache-2.0, by hexgrad. ONNX Runtime runs an ONNX export on the CPU; the original
weights run in PyTorch, on a GPU or where there is no export.
"""

from antiphon.contracts.family import Family, Task
from antiphon.contracts.types import SpeechRequest
from antiphon.families.kit.folder import Folder

_HERE = Folder(__name__)

FAMILY = Family(
    name="kokoro",
    title="Kokoro-82M: small, with many voices that can be mixed, for a CPU or a GPU, 24 kHz",
    architectures=("style_text_to_speech_2",),
    config_keys=("istftnet", "plbert", "vocab"),
    files=("kokoro-v1_0.pth", "voices/*.pt", "voices/*.bin", "onnx/model.onnx"),
    needs_checkpoint=True,
    draws_weights=True,
    inspector=_HERE("voices:inspect"),
    checkpoint_maker=_HERE("sizes:make_checkpoint"),
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=_HERE("prompt:KokoroPrompter"),
            pipeline=(
                _HERE.generator(
                    "voice", "generator:KokoroGenerator", weights=("*.pth", "onnx/*.onnx")
                ),
            ),
        )
    },
)
