"""Piper's voices: VITS networks in ONNX's format, small enough for any CPU, in many languages.

A voice is two files, ``NAME.onnx`` and ``NAME.onnx.json``. Only Piper's layout of files is used
here, nothing of its program.
"""

from antiphon.contracts.family import Family, Task
from antiphon.contracts.types import SpeechRequest
from antiphon.families.kit.folder import Folder
from antiphon.families.piper.options import PiperOptions

_HERE = Folder(__name__)

FAMILY = Family(
    name="piper",
    title="Voices in Piper's layout (VITS), for any CPU, 16 or 22.05 kHz",
    layout=("*.onnx", "*.onnx.json"),
    needs_checkpoint=True,
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=_HERE("prompt:PiperPrompter"),
            pipeline=(_HERE.generator("voice", "generator:PiperGenerator", weights=("*.onnx",)),),
            options=PiperOptions,
        )
    },
    inspector=_HERE("voice_files:inspect"),
)
