"""``antiphon say``: text to a file, or to a pipe, in this process."""

import sys
from dataclasses import dataclass
from typing import Annotated

import typer


@dataclass(frozen=True, slots=True)
class SayFlags:
    """The flags of ``antiphon say``."""

    text: Annotated[str, typer.Argument(help="What to say; - reads it from stdin.")]
    output: Annotated[
        str, typer.Option("--output", "-o", help="The file to write; - writes to stdout.")
    ] = "speech.wav"
    voice: Annotated[str | None, typer.Option(help="See `antiphon voices`.")] = None
    model: Annotated[
        str | None,
        typer.Option(
            help="A built-in model, a checkpoint's directory, or its ORG/NAME on the hub."
        ),
    ] = None
    speed: Annotated[float, typer.Option(help="0.25 to 4; pitch is kept.")] = 1.0
    format: Annotated[
        str | None,
        typer.Option(help="mp3, opus, aac, flac, wav or pcm; default: the file's suffix."),
    ] = None
    seed: Annotated[int | None, typer.Option(help="Repeats the same audio.")] = None
    sample_rate: Annotated[
        int | None, typer.Option(help="In Hz, 8000 to 48000; default: the model's own.")
    ] = None
    language: Annotated[str | None, typer.Option(help="For models that let it be chosen.")] = None
    instructions: Annotated[
        str | None, typer.Option(help="How to speak, for models that take instructions.")
    ] = None


def say(flags: SayFlags) -> None:
    """Say a text into a file, written while it is made."""
    text = sys.stdin.read() if flags.text == "-" else flags.text

    from antiphon.cli.speak import speak
    from antiphon.types import SpeechRequest

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
