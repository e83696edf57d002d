"""hibari: a small English voice that speaks faster than real time on one core of any machine.

The network and the pronunciation dictionaries come with the package ``hibari-tts``; nothing is
ever downloaded. One run of the network predicts the acoustic frames of a whole sentence; the
vocoder then turns them into audio chunk by chunk.
"""

from antiphon.contracts.family import Family, Task
from antiphon.contracts.types import SpeechRequest
from antiphon.families.kit.folder import Folder

_HERE = Folder(__name__)

FAMILY = Family(
    name="hibari",
    title="A small English voice for any CPU, 24 kHz",
    tasks={
        "speech": Task(
            request=SpeechRequest,
            prompter=_HERE("prompt:HibariPrompter"),
            pipeline=(_HERE.generator("voice", "generator:HibariGenerator"),),
        )
    },
)
