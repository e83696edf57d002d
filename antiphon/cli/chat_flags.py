"""Flags of ``antiphon chat``: a conversation with a model."""

from dataclasses import dataclass
from typing import Annotated

import typer

from antiphon.cli import completion
from antiphon.cli.flags import ApiKey, Url, flag


@dataclass(frozen=True, slots=True)
class ChatFlags:
    """The flags of ``antiphon chat``."""

    text: Annotated[
        str | None,
        typer.Argument(help="One message to be answered; - reads it from stdin. None: a talk."),
    ] = None
    model: Annotated[
        str | None,
        flag(
            "A checkpoint's directory, its ORG/NAME on the hub, or a built-in model.",
            autocompletion=completion.models_anywhere,
        ),
    ] = None
    url: Url = None
    api_key: ApiKey = None
    system: Annotated[str | None, flag("System prompt, before all messages.")] = None
    max_tokens: Annotated[int | None, flag("Most tokens of an answer.")] = None
    temperature: Annotated[float | None, flag("0 to 2; default: the checkpoint's.")] = None
    top_p: Annotated[float | None, flag("Share of probability to draw from.")] = None
    seed: Annotated[int | None, flag("Repeats the same answers.")] = None
