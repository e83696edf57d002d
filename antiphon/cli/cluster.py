"""``antiphon stage`` and ``antiphon scale``: hosts and replicas of a Ray cluster."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.flags import AsJson
from antiphon.cli.tables import show_table
from antiphon.errors import SettingsError, UnavailableError, how_to_install

if TYPE_CHECKING:
    from antiphon.config import Settings
    from antiphon.fabric.cluster.base import Controller, StageView

_ADDRESS = (
    "Of the Ray cluster, HOST:PORT or auto; default: the server of this host, if there is one."
)
_ANSWER_S = 90.0
"""A cluster of this host answers when what leaves has been drained."""
_NEEDS_RAY = "stages on several hosts need Ray"


def stage(
    address: Annotated[
        str | None, typer.Option(help="Of the cluster's head, HOST:PORT.", show_default=False)
    ] = None,
    head: Annotated[
        bool, typer.Option("--head", help="Begin a cluster, instead of joining one.")
    ] = False,
    port: Annotated[int, typer.Option(help="Of the head.")] = 6379,
    gpus: Annotated[
        int | None, typer.Option(help="GPUs of this host that stages may use.", show_default="all")
    ] = None,
    cpus: Annotated[
        int | None,
        typer.Option(help="CPUs of this host that stages may reserve.", show_default="its cores"),
    ] = None,
    node_ip_address: Annotated[
        str | None,
        typer.Option(help="Of this host for others of the cluster.", show_default="found by Ray"),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE that a placement's labels ask for; repeatable."),
    ] = None,
) -> None:
    """Make this host part of a Ray cluster, until it is stopped.

    Servers on any host of the cluster then place replicas here: antiphon serve --fabric ray.
    """
    import os
    import subprocess

    from antiphon.config.sources import process_environment
    from antiphon.fabric.cluster.ray_plan import OUTLIVE_HEAD

    _check_installed()
    if head == (address is not None):
        raise SettingsError("Give either --head or --address HOST:PORT.")
    where = ["--head", f"--port={port}"] if head else [f"--address={address}"]
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    # A client that can reach Ray can run code on all of its hosts: always require its token.
    environment = {"RAY_AUTH_MODE": "token", **OUTLIVE_HEAD, **process_environment()}
    command = [*ray, "start", "--block", *where]
    if head:
        making = [*ray, "get-auth-token", "--generate"]  # if there is none
        subprocess.run(making, env=environment, stdout=subprocess.DEVNULL, check=True)
        command += ["--include-dashboard=false", "--disable-usage-stats"]
    given = {
        "--num-gpus": gpus,
        "--num-cpus": cpus,
        "--node-ip-address": node_ip_address,
        "--labels": _labels(label or []),
    }
    command += [f"{name}={value}" for name, value in given.items() if value not in (None, "")]
    os.execve(command[0], command, environment)


def scale(
    stage: Annotated[
        str | None, typer.Argument(help="A stage, by its name or id.", show_default=False)
    ] = None,
    replicas: Annotated[int | None, typer.Argument(help="How many.", show_default=False)] = None,
    address: Annotated[str | None, typer.Option(help=_ADDRESS, show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Add or remove replicas of a stage while it serves; without arguments, list the stages.

    What is removed takes no further requests, and stops when its streams have ended.
    """
    import asyncio

    from antiphon.config.sources import load_settings

    if (stage is None) != (replicas is None):
        raise SettingsError("Give both a stage and the number of its replicas, or neither.")
    settings = load_settings({"server.ray_address": address})
    try:
        found = asyncio.run(_scaled(settings, stage, replicas))
    except TimeoutError as error:
        raise UnavailableError(f"The cluster has not answered for {_ANSWER_S:.0f} s.") from error
    records = [{"id": each.id, **_row(each, found)} for each in found]
    columns = ("Stage", "Wanted", "Ready", "Draining", "Loading", "Open", "Capacity", "Hosts")
    show_table(records, columns, [list(_row(each, found).values()) for each in found], as_json)


async def _scaled(
    settings: "Settings", name: str | None, num_replicas: int | None
) -> "tuple[StageView, ...]":
    """Scale a stage, if one is named; return all stages; raises TimeoutError."""
    import asyncio

    async with asyncio.timeout(_ANSWER_S):
        control = await _control(settings)
        stages = await control.stages()
        if name is not None and num_replicas is not None:
            await control.scale(_named(name, stages).id, num_replicas)
            stages = await control.stages()
        return stages


async def _control(settings: "Settings") -> "Controller":
    """Return the one cluster that is meant: that of a server of this host, or one on Ray."""
    from antiphon.fabric.cluster.remote import connected_to_servers

    server = settings.server
    if server.ray_address is None:
        found = await connected_to_servers()
        if len(found) > 1:
            raise SettingsError(
                f"{len(found)} servers of this host run stages. Stop the others, or start each with"
                " a TMPDIR of its own, and set that of the server that is meant here too."
            )
        if found:
            return found[0]
    _check_installed()
    from antiphon.fabric.cluster.ray_client import RayControllerClient

    return await RayControllerClient.connect(server.ray_address, server.ray_namespace)


def _named(name: str, stages: "tuple[StageView, ...]") -> "StageView":
    found = [each for each in stages if name in (each.id, each.name, *each.name.split("+"))]
    if len(found) == 1:
        return found[0]
    among = ", ".join(each.id for each in found or stages) or "none"
    problem = "Several stages are" if found else "No stage is"
    raise SettingsError(f"{problem} called '{name}': {among}.")


def _row(stage: "StageView", among: "tuple[StageView, ...]") -> dict[str, Any]:
    is_unique = sum(each.name == stage.name for each in among) == 1
    return {
        "stage": stage.name if is_unique else stage.id,
        "wanted": stage.num_wanted,
        "ready": sum(not each.is_draining for each in stage.replicas),
        "draining": sum(each.is_draining for each in stage.replicas),
        "loading": stage.num_loading,
        "open": sum(each.num_open for each in stage.statuses),
        "capacity": sum(each.capacity for each in stage.statuses),
        "hosts": ", ".join(sorted({each.host for each in stage.replicas})) or None,
    }


def _labels(given: list[str]) -> str:
    for each in given:
        name, is_one, value = each.partition("=")
        if not (name and is_one and value) or "," in each:
            raise SettingsError(f"--label: '{each}' is not NAME=VALUE.")
    return ",".join(given)


def _check_installed() -> None:
    from importlib.util import find_spec

    if find_spec("ray") is None:
        raise SettingsError(f"{_NEEDS_RAY}: {how_to_install('ray')}.")
