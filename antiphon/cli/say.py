"""``antiphon say``: text to a file, or to a pipe, in this process."""

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from antiphon.cli.flags import flag


@dataclass(frozen=True, slots=True)
class SayFlags:
    """The flags of ``antiphon say``."""

    text: Annotated[str, typer.Argument(help="Text to speak; - reads it from stdin.")]
    output: Annotated[
        str, flag("The file to write; - writes to stdout.", True, "--output", "-o")
    ] = "speech.wav"
    voice: Annotated[str | None, flag("See `antiphon voices`.")] = None
    model: Annotated[
        str | None, flag("A built-in model, a checkpoint's directory, or its ORG/NAME on the hub.")
    ] = None
    speed: Annotated[float, flag("0.25 to 4; pitch is kept.", True)] = 1.0
    format: Annotated[
        str | None, flag("mp3, opus, aac, flac, wav or pcm; default: the file's suffix.")
    ] = None
    seed: Annotated[int | None, flag("Repeats the same audio.")] = None
    sample_rate: Annotated[int | None, flag("In Hz, 8000 to 48000; default: the model's own.")] = (
        None
    )
    language: Annotated[str | None, flag("For models that let it be chosen.")] = None
    instructions: Annotated[
        str | None, flag("How to speak, for models that take instructions.")
    ] = None


def say(flags: SayFlags) -> None:
    """Speak a text into a file, written while it is generated."""
    text = sys.stdin.read() if flags.text == "-" else flags.text

    from antiphon.cli.speak import speak
    from antiphon.contracts.types import SpeechRequest

    request = SpeechRequest(
        input=text,
        voice=flags.voice,
        language=flags.language,
        instructions=flags.instructions,
        speed=flags.speed,
        sample_rate_hz=flags.sample_rate,
        seed=flags.seed,
    )
    speak(flags.model, request, output=flags.output, format_name=flags.format)
