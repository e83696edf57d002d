"""Piper's voices: VITS networks in ONNX's format, small enough for any CPU, in many languages.

A voice is two files, ``NAME.onnx`` and ``NAME.onnx.json``. Only Piper's layout of files is used
here, nothing of its program.
"""

from antiphon.contracts.family import Family, ItemKind, Ref, StageKind, StageSpec, Task
from antiphon.contracts.types import SpeechRequest
from antiphon.families.piper.options import PiperOptions

_HERE = "antiphon.families.piper"

FAMILY = Family(
    name="piper",
    title="Voices in Piper's layout (VITS), for any CPU, 16 or 22.05 kHz",
    layout=("*.onnx", "*.onnx.json"),
    needs_checkpoint=True,
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=Ref(f"{_HERE}.prompt:PiperPrompter"),
            pipeline=(
                StageSpec(
                    "voice",
                    StageKind.GENERATOR,
                    ItemKind.TEXT,
                    ItemKind.AUDIO,
                    Ref(f"{_HERE}.generator:PiperGenerator"),
                    weights=("*.onnx",),
                ),
            ),
            options=PiperOptions,
        )
    },
    inspector=Ref(f"{_HERE}.checkpoint_info:inspect"),
    checkpoint_maker=Ref(f"{_HERE}.random_checkpoint:make_checkpoint"),
)
