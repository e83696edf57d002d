"""The placement that a server's settings name."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from antiphon.config import ModelSettings, Settings
from antiphon.contracts.family import Family, StageKind
from antiphon.errors import SettingsError
from antiphon.families.registry import served_name
from antiphon.placement.documents import read_placement
from antiphon.placement.gpus import gpus_of_host
from antiphon.placement.model_placement import ModelPlacement
from antiphon.placement.schema import ALL_GPUS, ModelSection, PlacementFile

_KINDS = tuple(kind.value for kind in StageKind)


@dataclass(frozen=True)
class ServerPlacement:
    """Placement of stages from the settings of a server.

    Attributes:
        file: all profiles, files and entries together.
        num_ranks: processes of each replica, as in `ModelPlacement`.
    """

    file: PlacementFile
    fabric: str
    num_ranks: int = 1

    @classmethod
    def of(cls, settings: Settings) -> "ServerPlacement":
        """Read the documents that the settings name; raises SettingsError."""
        server = settings.server
        file = read_placement(server.placement, server.placement_set)
        return cls(without_all(file), server.fabric, settings.diffusion.num_processes)

    def of_model(self, settings: ModelSettings) -> ModelPlacement:
        name = settings.name or served_name(settings.source)
        return ModelPlacement(self.file, name, settings, self.fabric, self.num_ranks)

    def check_names(self, families: Mapping[str, Family]) -> None:
        """Refuse names that are those of no stage and no model; raises SettingsError."""
        for name, model in self.file.models.items():
            if name not in families:
                raise _unknown("models", name, "model", families)
            for stage in _stages_named(model):
                if stage not in (known := _stages({name: families[name]})):
                    raise _unknown(f"models.{name}.stages", stage, "stage", known)
        known = _stages(families)
        for stage in _stages_named(self.file):
            if stage not in known:
                raise _unknown("stages", stage, "stage", known)


def resolved(settings: Settings) -> Settings:
    """Return settings that need no file: they contain the placement and its server values.

    The fabric and the number of front ends are the placement's, unless the settings were given
    their own. Limits of connections that were not given leave room for all that the models serve.

    Raises:
        SettingsError: the placement is wrong.
    """
    server = settings.server
    if not server.placement and not server.placement_set:
        return _with_room(settings, 1)
    file = without_all(read_placement(server.placement, server.placement_set))
    written = file.model_dump(mode="json", exclude_unset=True)
    update: dict[str, Any] = {"placement": (json.dumps(written),), "placement_set": ()}
    from_file = {"fabric": file.fabric, "front_ends": file.front_ends}
    for name, value in from_file.items():
        if value is not None and name not in server.model_fields_set:
            update[name] = value
    placed = settings.model_copy(update={"server": server.model_copy(update=update)})
    return _with_room(placed, _most_replicas(file))


def _with_room(settings: Settings, num_replicas: int) -> Settings:
    """Raise default limits of connections to what models of so many replicas serve.

    One caller may hold all of it: behind a reverse proxy all clients have one address.
    """
    num_streams = num_replicas * sum(each.max_slots for each in settings.served())
    num_streams += sum(each.max_waiting for each in settings.served())
    limits = settings.limits
    wanted = {
        "max_requests": max(limits.max_requests, 2 * num_streams),
        "max_sockets": max(limits.max_sockets, 2 * num_streams),
        "caller_places": max(limits.caller_places, num_streams),
    }
    update = {name: each for name, each in wanted.items() if name not in limits.model_fields_set}
    return settings.model_copy(update={"limits": limits.model_copy(update=update)})


def _most_replicas(file: PlacementFile) -> int:
    """Return how many replicas the most replicated stage has at most."""
    sections = [
        section
        for model in (file, *file.models.values())
        for section in (model.defaults, *model.stages.values())
    ]
    return max(
        each.replicas.max if each.replicas is not None else len(each.devices or (None,))
        for each in sections
    )


def without_all(
    file: PlacementFile, gpus: Callable[[], Mapping[str, int]] = gpus_of_host
) -> PlacementFile:
    """Return a placement that names each GPU in place of ``all``; raises SettingsError.

    Args:
        file: placement that may contain ``all``.
        gpus: asked for their names only if it does.
    """
    values = file.model_dump(mode="json", exclude_unset=True)
    return PlacementFile.model_validate(values) if _name_gpus(values, gpus) else file


def _name_gpus(values: dict[str, Any], gpus: Callable[[], Mapping[str, int]]) -> bool:
    """Replace ``all`` in every list of devices; return whether there was one."""
    is_changed = False
    for key, value in values.items():
        if key == "devices" and isinstance(value, list) and ALL_GPUS in value:
            if not (found := gpus()):
                raise SettingsError("devices: all: this host has no GPU that PyTorch sees.")
            values[key], is_changed = list(found), True
        elif isinstance(value, dict):
            is_changed |= _name_gpus(value, gpus)
    return is_changed


def _stages_named(section: ModelSection) -> Iterator[str]:
    yield from section.stages
    for group in section.groups.values():
        yield from group.stages


def _stages(families: Mapping[str, Family]) -> tuple[str, ...]:
    tasks = [task for family in families.values() for task in family.tasks.values()]
    specs = [spec for task in tasks for spec in (*task.pipeline, task.encoder) if spec is not None]
    return tuple(dict.fromkeys([*(spec.name for spec in specs), *_KINDS]))


def _unknown(
    where: str, name: str, what: str, known: Mapping[str, Any] | tuple[str, ...]
) -> SettingsError:
    return SettingsError(
        f"placement: {where}: there is no {what} '{name}'; known: {', '.join(known)}."
    )
