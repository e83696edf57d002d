"""``antiphon placement``: contents of a placement file, and its effect on a model."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.flags import AsJson
from antiphon.cli.tables import show_table
from antiphon.errors import SettingsError

if TYPE_CHECKING:
    from antiphon.config import Settings
    from antiphon.contracts.family import StageKind
    from antiphon.placement.check import EngineRow

placement = typer.Typer(no_args_is_help=True, help="Check and show what runs where.")

_Sources = Annotated[
    list[str], typer.Argument(help="Profiles or YAML files; later ones win.", show_default=False)
]
_Entries = Annotated[
    list[str] | None,
    typer.Option("--set", help="A single entry, as stage.talker.replicas=2; repeatable."),
]
_GIB = 2**30


@placement.command("list")
def list_profiles() -> None:
    """List the placements that are shipped."""
    from antiphon.placement.documents import profiles

    rows = []
    for name, path in profiles().items():
        comment = path.read_text(encoding="utf-8").splitlines()[0]
        rows.append([name, comment.removeprefix("# ")])
    show_table([{"name": name} for name, _ in rows], ("Name", "What it is"), rows, False)


@placement.command()
def show(
    sources: _Sources,
    entries: _Entries = None,
    as_json: AsJson = False,
) -> None:
    """Print the placement that several files and entries make together."""
    from antiphon.placement.documents import read_placement

    file = read_placement(sources, entries or ())
    values = file.model_dump(mode="json", exclude_unset=True)
    if as_json:
        typer.echo(json.dumps(values, indent=2))
        return

    from rich.console import Console
    from rich.tree import Tree

    tree = Tree(", ".join(sources))
    _grow(tree, values)
    Console(highlight=False).print(tree)


@placement.command()
def check(
    sources: Annotated[
        list[str],
        typer.Argument(help="Profiles or files; the last one is a model.", show_default=False),
    ],
    entries: _Entries = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="A TOML file of settings.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what would run where, or why it cannot: PLACEMENT... MODEL. Nothing is loaded.

    The exit status is 1 if it cannot run on this host.
    """
    from antiphon.config.sources import load_settings
    from antiphon.placement.check import notes, problems
    from antiphon.placement.gpus import gpus_of_host
    from antiphon.placement.settings_placement import resolved

    *files, model = sources
    if not files:
        raise SettingsError("Name a placement, then a model: antiphon placement check FILE MODEL.")
    flags = {
        "model.source": model,
        "server.placement": tuple(files),
        "server.placement_set": tuple(entries or ()),
    }
    settings = resolved(load_settings(flags, file=config))
    rows, kinds = engine_rows(settings)
    fabric = settings.server.fabric
    wrong = [*problems(rows, fabric, gpus_of_host())]
    remarks = [*notes(rows, kinds, fabric)]
    if as_json:
        report = {
            "fabric": fabric,
            "front_ends": settings.server.front_ends,
            "engines": [_record(row) for row in rows],
            "notes": remarks,
            "problems": wrong,
        }
        typer.echo(json.dumps(report, indent=2))
    else:
        _print(settings, rows, remarks, wrong)
    if wrong:
        raise typer.Exit(1)


@placement.command()
def translate(
    file: Annotated[Path, typer.Argument(help="vLLM-Omni's stage configs.", show_default=False)],
    model: Annotated[str, typer.Argument(help="The model that it is for.", show_default=False)],
) -> None:
    """Print the placement that stage configs of vLLM-Omni are; the report goes to stderr."""
    import yaml

    typer.echo(yaml.safe_dump(_translated(file, model), sort_keys=False), nl=False)


def with_stage_configs(settings: "Settings") -> "Settings":
    """Return settings whose placement is made of their stage configs, and print the translation.

    Raises:
        SettingsError: they cannot be read, or are not those of the model.
    """
    server = settings.server
    if server.stage_configs is None:
        return settings
    text = json.dumps(_translated(server.stage_configs, settings.model.source))
    update = {"placement": (text, *server.placement), "stage_configs": None}
    return settings.model_copy(update={"server": server.model_copy(update=update)})


def _translated(file: Path, model: str | None) -> dict[str, Any]:
    """Return the placement of stage configs, and print the translation of each entry."""
    from antiphon.families.registry import resolve
    from antiphon.pipeline.speech.model import SPEECH
    from antiphon.placement.stage_configs import translate

    family, _ = resolve(model)
    if SPEECH not in family.tasks:
        raise SettingsError(f"Stage configs are read for models that speak; '{model}' does not.")
    translation = translate(file, family.tasks[SPEECH].pipeline)
    for remark in sorted(translation.remarks, key=lambda each: not each.is_translated):
        sign = "->" if remark.is_translated else "no meaning here:"
        typer.echo(f"{remark.entry} {sign} {remark.meaning}", err=True)
    return translation.values


def engine_rows(settings: "Settings") -> "tuple[list[EngineRow], Mapping[str, StageKind]]":
    """Return the engines of all served models, and the kinds of their stages.

    Raises:
        SettingsError: the placement does not fit the stages.
        ModelLoadError: a model cannot be found, or makes nothing of what is to be served.
    """
    from antiphon.contracts.family import LoadContext, StageSpec
    from antiphon.families.registry import resolve
    from antiphon.pipeline.model_loading import served_tasks
    from antiphon.placement.check import engine_row
    from antiphon.placement.settings_placement import ServerPlacement
    from antiphon.stages.build import engine_groups, shared_engines

    server = ServerPlacement.of(settings)
    models = [(server.of_model(each), *resolve(each.source)) for each in settings.served()]
    server.check_names({placed.name: family for placed, family, _ in models})
    rows: list[EngineRow] = []
    kinds: dict[str, StageKind] = {}
    for placed, family, path in models:
        of_model, engines = placed.settings, list[tuple[StageSpec, ...]]()
        chains: dict[str, tuple[tuple[StageSpec, ...], ...]] = {}
        context = LoadContext(path, of_model.device, of_model.dtype, of_model.max_slots)
        for name in served_tasks(family, settings.server):
            task = family.tasks[name]
            is_colocated = placed.is_colocated(task.pipeline)
            engines += [] if task.encoder is None else [(task.encoder,)]
            chains[name] = engine_groups(task.pipeline, is_colocated=is_colocated)
        engines += [group for chain in shared_engines(chains).values() for group in chain]
        once = tuple(dict.fromkeys(engines))  # one that several tasks declare is loaded once
        for specs, placement in zip(once, placed.placements(once), strict=True):
            kinds |= {spec.name: spec.kind for spec in specs}
            rows.append(engine_row(placed, specs, placement, context))
    return rows, kinds


def _print(
    settings: "Settings", rows: "Sequence[EngineRow]", remarks: list[str], wrong: list[str]
) -> None:
    from rich.console import Console
    from rich.markup import escape

    columns = ("Model", "Engine", "Replicas", "Devices", "Batch", "Weights, set cache")
    show_table([], columns, [[*_cells(row)] for row in rows], False)
    console = Console(highlight=False)
    front_ends = settings.server.front_ends or "none apart from the server"
    console.print(f"\nFabric: {settings.server.fabric}. Front ends: {front_ends}.")
    for line in remarks:
        console.print(escape(line))
    for line in wrong:
        console.print(escape(line), style="red")
    console.print("It cannot run on this host." if wrong else "Nothing speaks against it.")


def _cells(row: "EngineRow") -> Iterator[Any]:
    where, most = row.placement, row.placement.num_most
    bounds = f" ({where.min_replicas}-{most})" if most > where.min_replicas else ""
    labels = " ".join(f"{name}={value}" for name, value in where.labels)
    gpus = f"{where.num_gpus:g} GPU" if where.num_gpus else ""
    cpus = f"{where.num_cpus:g} CPU" if where.num_cpus else ""
    yield row.model
    yield row.name
    yield f"{where.num_replicas}{bounds}"
    group = f"{where.group.name} ({where.group.strategy})" if where.group else ""
    yield " ".join(filter(None, (", ".join(row.devices), gpus, cpus, labels, group)))
    yield row.max_batch
    yield f"{row.num_bytes / _GIB:.1f} GiB"


def _record(row: "EngineRow") -> dict[str, Any]:
    where = row.placement
    return {
        "model": row.model,
        "stages": list(row.stages),
        "replicas": {"start": where.num_replicas, "min": where.min_replicas, "max": where.num_most},
        "devices": list(row.devices),
        "gpus": where.num_gpus,
        "cpus": where.num_cpus,
        "max_batch": row.max_batch,
        "memory_fraction": where.memory_fraction,
        "bytes": row.num_bytes,
        "labels": dict(where.labels),
        "group": where.group and {"name": where.group.name, "strategy": where.group.strategy},
        "environment": sorted(name for name, _ in where.environment),
    }


def _grow(tree: Any, values: Mapping[str, Any]) -> None:
    from rich.markup import escape

    for key, value in values.items():
        if isinstance(value, Mapping):
            _grow(tree.add(f"[bold]{escape(key)}[/]"), value)
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            tree.add(f"{escape(key)}: {escape(str(shown))}")
