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
from antiphon.cli.doctor import doctor
from antiphon.cli.flags import add_command, without_switch_types
from antiphon.cli.keys import keys
from antiphon.cli.models import models
from antiphon.cli.picture_flags import ImageFlags, VideoFlags
from antiphon.cli.placement import placement
from antiphon.cli.say import SayFlags, say
from antiphon.cli.serve import ServeFlags, serve
from antiphon.cli.settings import config
from antiphon.cli.voices import voices
from antiphon.errors import AntiphonError, SettingsError

_PANELS = (
    *("Serve and generate", "Models and voices", "Operation", "Several GPUs and hosts"),
    "Development and measurement",
)
_USE, _MODELS, _OPERATION, _PLACEMENT, _DEVELOPMENT = _PANELS
_START = f"""Antiphon {__version__}: text to speech behind an OpenAI-compatible API.

Start here: an English voice is built in, and runs on any CPU.
  antiphon say "Hello there."              speak on this machine; -o hello.wav writes a file
  antiphon serve                           serve the API, with a page at http://127.0.0.1:8000

Further models and voices:
  antiphon models                          what can be served
  antiphon models pull ORG/NAME            download a checkpoint, after its size and licence
  antiphon serve ORG/NAME                  serve a checkpoint of the hub, or of a directory
  antiphon voices                          the voices of a model
  antiphon doctor                          what this machine can run, and what is missing

All commands: antiphon --help. Flags of one: antiphon say --help.
Complete names with the Tab key: antiphon --install-completion."""


@cache
def further_commands() -> EntryPoints:
    """Return the commands of other distributions, each a `typer.Typer`, not yet loaded."""
    return entry_points(group="antiphon.commands")


def _further_command(name: str) -> Any:
    for entry in further_commands().select(name=name):
        found: Any = typer.main.get_command(entry.load())
        found.name = name
        found.rich_help_panel = _DEVELOPMENT
        return found
    return None


class _Commands(TyperGroup):
    """Prints our own errors in one line; any other is a bug and keeps its traceback.

    Commands of other distributions are loaded when they are run or listed.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        own: dict[str, Any] = {**self.commands}
        in_order = sorted(own, key=lambda name: _PANELS.index(own[name].rich_help_panel))
        return [*in_order, *sorted(further_commands().names)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found: Any = super().get_command(ctx, cmd_name) or _further_command(cmd_name)
        if found is not None:
            without_switch_types(found, ctx)
            return found
        if cmd_name == "bench":
            raise SettingsError(
                "'antiphon bench' comes with antiphon-bench, which is not installed: run"
                " 'scripts/setup' in a checkout, or pip install"
                " './antiphon_bench-VERSION-py3-none-any.whl'."
            )
        return None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        without_switch_types(self, ctx)
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except AntiphonError as error:
            message = error.message
        except ModuleNotFoundError as error:
            message = _missing_package(error)
        typer.echo(f"antiphon: {message}", err=True)
        raise typer.Exit(1)


def _missing_package(error: ModuleNotFoundError) -> str:
    """Return how to install the packages of a family whose module is missing; others are bugs."""
    from antiphon.families.registry import families

    package = (error.name or "").partition(".")[0]
    for extra in (each.extra for each in families()):
        if extra is not None and package in extra.packages and extra.missing:
            return extra.missing
    raise error


app = typer.Typer(
    name="antiphon",
    cls=_Commands,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"antiphon {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Text to speech behind an OpenAI-compatible API."""
    if context.invoked_subcommand is None:
        typer.echo(_START)


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


add_command(app, "serve", ServeFlags, serve, rich_help_panel=_USE)
add_command(app, "say", SayFlags, say, rich_help_panel=_USE)
add_command(app, "chat", ChatFlags, chat, rich_help_panel=_USE)
add_command(app, "image", ImageFlags, image, rich_help_panel=_USE)
add_command(app, "video", VideoFlags, video, rich_help_panel=_USE)
add_command(app, "demo", DemoFlags, demo, rich_help_panel=_USE)
app.add_typer(models, name="models", rich_help_panel=_MODELS)
app.add_typer(voices, name="voices", rich_help_panel=_MODELS)
app.command(rich_help_panel=_OPERATION)(config)
app.command(rich_help_panel=_OPERATION)(doctor)
app.add_typer(keys, name="keys", rich_help_panel=_OPERATION)
app.add_typer(data, name="data", rich_help_panel=_OPERATION)
app.add_typer(placement, name="placement", rich_help_panel=_PLACEMENT)
app.command(rich_help_panel=_PLACEMENT)(stage)
app.command(rich_help_panel=_PLACEMENT)(scale)
app.add_typer(dev, name="dev", rich_help_panel=_DEVELOPMENT)
