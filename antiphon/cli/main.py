"""``antiphon``: the commands, and one line on stderr for every error that is a user's."""

from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from antiphon import __version__
from antiphon.cli.chat_flags import ChatFlags
from antiphon.cli.cluster import scale, stage
from antiphon.cli.data import data
from antiphon.cli.demo import DemoFlags, demo
from antiphon.cli.dev import dev
from antiphon.cli.flags import add_command
from antiphon.cli.keys import keys
from antiphon.cli.models import models
from antiphon.cli.picture_flags import ImageFlags, VideoFlags
from antiphon.cli.placement import placement
from antiphon.cli.say import SayFlags, say
from antiphon.cli.serve import ServeFlags, serve
from antiphon.cli.settings import config
from antiphon.cli.voices import voices
from antiphon.errors import AntiphonError, SettingsError


@cache
def further_commands() -> EntryPoints:
    """Return the commands of other distributions, each a `typer.Typer`, not yet loaded."""
    return entry_points(group="antiphon.commands")


class _Commands(TyperGroup):
    """Prints our own errors in one line; any other is a bug and keeps its traceback.

    Commands of other distributions are loaded when they are run or listed.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *sorted(further_commands().names)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            return found
        for each in further_commands().select(name=cmd_name):
            found = typer.main.get_command(each.load())
            found.name = cmd_name
            return found
        if cmd_name == "bench":
            raise SettingsError(
                "'antiphon bench' comes with antiphon-bench, which is not installed: run"
                " 'scripts/setup' in a checkout, or pip install"
                " './antiphon_bench-VERSION-py3-none-any.whl'."
            )
        return None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except AntiphonError as error:
            typer.echo(f"antiphon: {error.message}", err=True)
            raise typer.Exit(1) from error


app = typer.Typer(
    name="antiphon",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"antiphon {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Text to speech behind an OpenAI-compatible API."""


def chat(flags: ChatFlags) -> None:
    """Talk with a model: answers appear as they are written.

    Ctrl-C stops an answer. /clear forgets the conversation, /exit or Ctrl-D ends the talk.
    """
    from antiphon.cli.talk import talk

    talk(flags)


def image(flags: ImageFlags) -> None:
    """Draw an image of a prompt, or edit images, into a file."""
    from antiphon.cli.draw import draw_image

    draw_image(flags)


def video(flags: VideoFlags) -> None:
    """Make a video of a prompt into a file."""
    from antiphon.cli.draw import make_video

    make_video(flags)


add_command(app, "serve", ServeFlags, serve)
add_command(app, "say", SayFlags, say)
add_command(app, "chat", ChatFlags, chat)
add_command(app, "image", ImageFlags, image)
add_command(app, "video", VideoFlags, video)
add_command(app, "demo", DemoFlags, demo)
app.add_typer(voices, name="voices")
app.add_typer(models, name="models")
app.add_typer(placement, name="placement")
app.command()(stage)
app.command()(scale)
app.add_typer(keys, name="keys")
app.add_typer(data, name="data")
app.command()(config)
app.add_typer(dev, name="dev")
