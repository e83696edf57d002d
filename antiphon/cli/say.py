"""``antiphon say``: text to speech, played or written to a file or a pipe."""

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from antiphon.cli import completion
from antiphon.cli.flags import ApiKey, Url, flag
from antiphon.formats import FORMAT_NAMES


@dataclass(frozen=True, slots=True)
class SayFlags:
    """The flags of ``antiphon say``."""

    text: Annotated[str, typer.Argument(help="Text to speak; - reads it from stdin.")]
    output: Annotated[
        str | None,
        flag(
            "The file to write; - writes to stdout; default: it is played on a terminal, and"
            " written to speech.wav elsewhere.",
            False,
            *("--output", "-o"),
        ),
    ] = None
    voice: Annotated[
        str | None, flag("See `antiphon voices`.", autocompletion=completion.voices)
    ] = None
    model: Annotated[
        str | None,
        flag(
            "A built-in model, a checkpoint's directory, or its ORG/NAME on the hub.",
            autocompletion=completion.models_anywhere,
        ),
    ] = None
    url: Url = None
    api_key: ApiKey = None
    speed: Annotated[float, flag("0.25 to 4; pitch is kept.", True)] = 1.0
    format: Annotated[
        str | None,
        flag(
            f"{FORMAT_NAMES}; default: the file's suffix.",
            autocompletion=completion.formats,
        ),
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
    """Speak a text: play it, or write a file, while it is generated."""
    text = sys.stdin.read() if flags.text == "-" else flags.text

    from antiphon.cli.speak import ResultSource, speak
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
    source = ResultSource(flags.model, flags.url, flags.api_key)
    speak(source, request, flags.output, flags.format)
