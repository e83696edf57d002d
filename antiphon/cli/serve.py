"""``antiphon serve``: an HTTP server for one model or several."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from antiphon.cli import completion
from antiphon.cli.completion import among
from antiphon.cli.diffusion_flags import DiffusionFlags
from antiphon.cli.flags import SETTING, flag, settings_of
from antiphon.errors import SettingsError
from antiphon.formats import FORMAT_NAMES

_MODEL = "A built-in model, a checkpoint's directory, or its ORG/NAME on the hub; NAME=SOURCE."
_DETERMINISTIC = "The same audio in any batch, to the byte, on a GPU too."
_NETWORK = "with keys, else those of one's own network"


@dataclass(frozen=True)
class ModelFlags:
    """Models, and how they are loaded."""

    panel: ClassVar[str] = "Model"
    section: ClassVar[str] = "model"
    model: Annotated[
        str | None,
        typer.Argument(help=_MODEL, show_default=False, autocompletion=completion.models),
        "model.source",
    ] = None
    more: Annotated[
        list[str] | None,
        flag(
            "A further model, SOURCE or NAME=SOURCE; repeatable.", autocompletion=completion.models
        ),
        "models.more",
    ] = None
    name: Annotated[str | None, flag("Served name of the model.", "last part of the model")] = None
    device: Annotated[
        str | None,
        flag("cpu, cuda, cuda:N or auto.", SETTING, autocompletion=among("cpu", "cuda", "auto")),
    ] = None
    dtype: Annotated[
        str | None,
        flag(
            "auto, bfloat16 or float32.",
            SETTING,
            autocompletion=among("auto", "bfloat16", "float32"),
        ),
    ] = None
    load_format: Annotated[
        str | None,
        flag("auto, or dummy: random weights.", SETTING, autocompletion=among("auto", "dummy")),
    ] = None
    quantize: Annotated[
        str | None,
        flag("Weights: int8, or fp16 on a CPU.", "dtype", autocompletion=among("int8", "fp16")),
    ] = None
    cpu_threads: Annotated[
        int | None, flag("Threads on a CPU, the codec's beside them.", "all cores but one")
    ] = None
    max_slots: Annotated[int | None, flag("Requests that are worked on at once.", SETTING)] = None
    cache_gib: Annotated[
        float | None, flag("Memory for keys and values, GiB.", "what slots need")
    ] = None
    deterministic: Annotated[bool | None, flag(_DETERMINISTIC, False, "--deterministic")] = None
    trust_remote_code: Annotated[
        bool | None,
        flag("Run Python code that the checkpoint brings.", False, "--trust-remote-code"),
    ] = None


@dataclass(frozen=True)
class AccessFlags:
    """Address, keys, and which clients may call."""

    panel: ClassVar[str] = "Address and access"
    section: ClassVar[str] = "server"
    host: Annotated[str | None, flag("Address to listen on.", SETTING)] = None
    port: Annotated[int | None, flag("Port; 0 picks a free one.", SETTING)] = None
    api_key: Annotated[
        list[str] | None, flag("Accept this key; repeatable.", "no key is asked"), "server.api_keys"
    ] = None
    api_keys_file: Annotated[Path | None, flag("File of keys or hashes, one a line.", "none")] = (
        None
    )
    allow_no_key: Annotated[
        bool | None, flag("Serve other machines without asking for a key.", False, "--allow-no-key")
    ] = None
    allowed_host: Annotated[
        list[str] | None,
        flag("Name by which clients may call; repeatable.", f"any {_NETWORK}"),
        "server.allowed_hosts",
    ] = None
    cors_origin: Annotated[
        list[str] | None,
        flag("Origin of pages that may call, * for all; repeatable.", f"all {_NETWORK}"),
        "server.cors_origins",
    ] = None


@dataclass(frozen=True)
class RequestFlags:
    """Defaults and limits of requests, and where results are kept."""

    panel: ClassVar[str] = "Requests and storage"
    max_input_characters: Annotated[
        int | None, flag("Longest text of one request.", SETTING), "speech.max_input_characters"
    ] = None
    default_response_format: Annotated[
        str | None,
        flag(
            f"{FORMAT_NAMES}, for requests that name none.",
            SETTING,
            autocompletion=completion.formats,
        ),
        "speech.default_response_format",
    ] = None
    default_voice: Annotated[
        str | None,
        flag("Voice of requests that name none.", "the model's first"),
        "speech.default_voice",
    ] = None
    data_dir: Annotated[
        Path | None, flag("Folder of uploaded voices.", "the user's data folder"), "data.dir"
    ] = None
    output_modalities: Annotated[
        list[str] | None,
        flag(
            "audio, image, video, text: what is served; repeatable.",
            "all that models make",
            autocompletion=among("audio", "image", "video", "text"),
        ),
        "server.output_modalities",
    ] = None
    media_output_fs_url: Annotated[
        str | None,
        flag("Where images and videos are kept, as s3://bucket/path.", "the data folder"),
        "media.output_fs_url",
    ] = None
    media_output_http_url: Annotated[
        str | None,
        flag("Address of that place for clients.", "this server's own"),
        "media.output_http_url",
    ] = None


@dataclass(frozen=True)
class PlacementFlags:
    """Processes, devices and hosts."""

    panel: ClassVar[str] = "Placement"
    section: ClassVar[str] = "server"
    front_ends: Annotated[
        int | None,
        flag("HTTP processes that share the port; 0: one process is the server.", SETTING),
    ] = None
    fabric: Annotated[
        str | None,
        flag(
            "Where stages run: local, process or ray.",
            SETTING,
            autocompletion=among("local", "process", "ray"),
        ),
    ] = None
    address: Annotated[
        str | None,
        flag("Of the Ray cluster, HOST:PORT or auto.", "this host's, or a new one"),
        "server.ray_address",
    ] = None
    placement: Annotated[
        list[str] | None,
        flag("Profile or YAML file with the placement of stages; repeatable.", "none"),
    ] = None
    placement_set: Annotated[
        list[str] | None,
        flag("Entry of the placement, as stage.talker.replicas=2; repeatable.", "none", "--set"),
    ] = None
    stage_configs: Annotated[
        Path | None,
        flag(
            "Stage configs of vLLM-Omni, which are translated.",
            "none",
            *("--stage-configs-path", "--deploy-config"),
        ),
    ] = None


@dataclass(frozen=True)
class LogFlags:
    """Logs, and the file of settings."""

    panel: ClassVar[str] = "Settings and logs"
    config: Annotated[Path | None, flag("A TOML file of settings.")] = None
    log_level: Annotated[
        str | None,
        flag(
            "debug, info, warning or error.",
            SETTING,
            autocompletion=among("debug", "info", "warning", "error"),
        ),
        "server.log_level",
    ] = None
    log_format: Annotated[
        str | None,
        flag("text or json.", SETTING, autocompletion=among("text", "json")),
        "server.log_format",
    ] = None


@dataclass(frozen=True)
class ServeFlags(LogFlags, DiffusionFlags, PlacementFlags, RequestFlags, AccessFlags, ModelFlags):
    """The flags of ``antiphon serve``; ``None`` leaves a setting to the environment or the file."""


def serve(flags: ServeFlags) -> None:
    """Serve a model behind an OpenAI-compatible API, with a page to try it.

    All settings can also come from the environment or a file: see `antiphon config`.
    """
    from antiphon.cli.placement import with_stage_configs
    from antiphon.config.sources import load_settings, set_library_defaults
    from antiphon.families.registry import resolve
    from antiphon.pipeline.acceleration_check import check_accelerations
    from antiphon.placement.settings_placement import resolved

    set_library_defaults()
    settings = load_settings(settings_of(flags), file=flags.config)
    settings = resolved(with_stage_configs(settings))
    # A wrong name or flag fails before anything heavy is imported.
    families = [resolve(model.source)[0] for model in settings.served()]
    check_accelerations(families, settings.diffusion)

    if settings.server.front_ends:
        if os.name != "posix":
            raise SettingsError("server.front_ends needs Linux or macOS; 0 is one process.")
        from antiphon.cli.front_ends import run_front_ends

        run_front_ends(settings)
    else:
        from antiphon.cli.uvicorn_server import run

        run(settings)
