"""The command line of a worker of NVIDIA Dynamo."""

import argparse
import re
from collections.abc import Sequence
from typing import Any

from antiphon.config import Settings
from antiphon.config.sources import load_settings, process_environment, set_library_defaults
from antiphon.dynamo.routes import ROUTES, DynamoRoute
from antiphon.errors import SettingsError
from antiphon.families.registry import served_name

FLAGS = {
    "namespace": "dynamo",
    "discovery-backend": "etcd",
    "request-plane": "tcp",
    "response-plane": "tcp",
    "event-plane": "zmq",
}
"""Dynamo's flags and defaults; its environment variables (DYN_NAMESPACE etc.) override these."""
REALTIME = "realtime"
"""Dynamo's name of endpoints whose requests and responses are event streams."""
MEDIA_FLAGS = ("media-output-fs-url", "media-output-http-url")
"""Dynamo's flags of file storage for requests that want addresses; settings share the names."""
SHUTDOWN_VARIABLE = "DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT"
CLOSING_S = 10
"""Time that a worker may take to stop beside the drain of its streams."""


def parsed_flags(argv: Sequence[str] | None) -> tuple[Settings, DynamoRoute, dict[str, Any]]:
    """Return the settings, the route of the task, and members of Dynamo's ``WorkerConfig``.

    Dynamo kills a worker that stops too slowly. Unless the environment sets a limit, it is raised
    to the drain time of our settings.

    Raises:
        SettingsError: a setting is unknown or wrong, or there is more than one model.
        InvalidRequestError: the task needs a package that is missing.
    """
    parser = argparse.ArgumentParser("python -m antiphon.dynamo.worker")
    parser.add_argument("model", nargs="?", help="what to serve, as for 'antiphon serve'")
    parser.add_argument("--task", choices=ROUTES, default="speech")
    parser.add_argument(
        "--realtime",
        action="store_true",
        help="serve WebSockets at /v1/realtime instead of requests for speech",
    )
    parser.add_argument("--component", help="what this model's workers share; default: its name")
    for name, default in {**FLAGS, **dict.fromkeys(MEDIA_FLAGS)}.items():
        variable = f"DYN_{name.upper().replace('-', '_')}"
        default = process_environment().get(variable, default)
        parser.add_argument(f"--{name}", default=default, help="Dynamo's; default: %(default)s")
    flags = vars(parser.parse_args(argv))
    given = {"model.source": flags.pop("model")}
    for name in MEDIA_FLAGS:
        setting = name.replace("-", "_")
        given[setting.replace("_", ".", 1)] = flags.pop(setting)
    settings = _with_addresses(load_settings(given))
    if settings.models.more:
        raise SettingsError("models.more: a worker of Dynamo serves one model. Start one for each.")
    task, is_realtime = flags.pop("task"), flags.pop("realtime")
    if is_realtime and task != "speech":
        raise SettingsError(f"--realtime: Dynamo has no realtime requests for the task '{task}'.")
    route = ROUTES[task]
    route.check()
    name = settings.model.name or served_name(settings.model.source)
    component = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    component = flags.pop("component") or component + f"-{REALTIME}" * is_realtime
    stop_s = round(settings.limits.grace_s) + CLOSING_S
    set_library_defaults({SHUTDOWN_VARIABLE: str(stop_s)})
    named = {"model_name": name, "served_model_name": name, "component": component}
    endpoint_types = REALTIME if is_realtime else route.endpoint_types
    return settings, route, {**flags, **named, "endpoint_types": endpoint_types}


def _with_addresses(settings: Settings) -> Settings:
    """Return settings under which files have addresses of their storage, without an HTTP server.

    Dynamo's own workers do the same; their addresses start with ``file://`` by default.
    """
    place = settings.media.output_fs_url or f"file://{settings.data.folder.absolute()}/outputs"
    media = {
        "output_fs_url": place,
        "output_http_url": settings.media.output_http_url or place,
    }
    return settings.model_copy(update={"media": settings.media.model_copy(update=media)})
