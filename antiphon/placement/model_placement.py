"""The placement of one model's stages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from antiphon.config import ModelSettings
from antiphon.config.diffusion import devices_of_ranks
from antiphon.contracts.engine_limits import PlaybackPolicy
from antiphon.contracts.family import StageKind, StageSpec
from antiphon.errors import SettingsError
from antiphon.fabric.base import GroupStrategy, Placement, StageGroup
from antiphon.placement.schema import ModelSection, PlacementFile, StageSection

_PLACE = ("devices", "replicas", "gpus", "cpus", "labels", "environment")
"""What an engine has: stages that differ in one of these have engines of their own."""
_CHUNKS = ("initial_codec_chunk_frames", "codec_chunk_frames", "codec_chunk_growth")
_GIB = 2**30


@dataclass(frozen=True)
class ModelPlacement:
    """Placement of one model, which takes precedence over the model's settings.

    Attributes:
        file: the placement, in which no device is ``all``.
        fabric: fabric that places the model, as in `ServerSettings`.
        num_ranks: GPUs that each replica of a diffusion stage takes.
    """

    file: PlacementFile
    name: str
    settings: ModelSettings
    fabric: str = "local"
    num_ranks: int = 1

    def section(self, spec: StageSpec) -> StageSection:
        """Return the merged section of a stage; more specific sections win."""
        parts = (*self._general(), *self._particular(spec))
        return StageSection.model_validate(_laid_over(parts))

    def is_colocated(self, pipeline: Sequence[StageSpec]) -> bool:
        """Whether a decoder shares the engine, device and step of the stage that feeds it.

        Raises:
            SettingsError: it shall share the engine, but not the place.
        """
        return all(
            spec.kind is not StageKind.DECODER or self._joins(spec, before)
            for before, spec in pairwise(pipeline)
        )

    def placement(self, specs: Sequence[StageSpec]) -> Placement:
        """Return where an engine's stages run; raises SettingsError."""
        first, *others = specs
        section = self.section(first)
        for spec in others:
            self._check_shared(spec, first)
        chunks: dict[str, Any] = {}
        for spec in specs:
            chunk_settings = self.section(spec).model_dump(include={*_CHUNKS}, exclude_none=True)
            chunks.update(chunk_settings)
        replicas, devices = section.replicas, section.devices or ()
        if first.kind is StageKind.DIFFUSION:
            devices = _first_devices(devices, self.num_ranks)
        num_replicas = replicas.first if replicas else max(1, len(devices))
        is_single = len(devices) == 1
        placement = Placement(
            device=devices[0] if is_single else None,
            devices=() if is_single else devices,
            num_replicas=num_replicas,
            min_replicas=replicas.min if replicas else num_replicas,
            max_replicas=replicas.max if replicas else num_replicas,
            num_gpus=section.gpus or 0.0,
            num_cpus=section.cpus,
            max_slots=section.max_batch,
            memory_fraction=section.memory_fraction,
            labels=tuple(sorted(section.labels.items())),
            environment=tuple(sorted(section.environment.items())),
            settings=tuple(self._load_settings(section, chunks)),
        )
        self._check_fabric(_named(specs), placement)
        return placement

    def placements(self, engines: Sequence[tuple[StageSpec, ...]]) -> list[Placement]:
        """Return each engine's place, and the group that it starts with; raises SettingsError."""
        placements = [self.placement(specs) for specs in engines]
        grouped = list(placements)
        for name, stages, strategy in self._groups():
            members = [
                number
                for number, specs in enumerate(engines)
                if any(spec.name in stages or spec.kind.value in stages for spec in specs)
            ]
            if self.fabric != "ray":
                raise SettingsError(f"groups.{name}: groups need the fabric 'ray'.")
            for number in members:
                self._check_group(name, engines, placements, members[0], number)
                if (other := grouped[number].group) is not None:
                    raise SettingsError(
                        f"groups.{name}: '{_named(engines[number])}' is in the group"
                        f" '{other.name}' already. A stage is in one group at most."
                    )
            group = StageGroup(
                name=f"{self.name}.{name}",
                strategy=strategy,
                engines=tuple((engines[number], placements[number]) for number in members),
                labels=placements[members[0]].labels if members else (),
            )
            for number in members:
                grouped[number] = replace(placements[number], group=group)
        return grouped

    def _groups(self) -> Iterator[tuple[str, tuple[str, ...], GroupStrategy]]:
        own = self.file.models.get(self.name, ModelSection()).groups
        for name, section in {**self.file.groups, **own}.items():
            yield name, section.stages, section.strategy

    def _check_group(
        self,
        name: str,
        engines: Sequence[tuple[StageSpec, ...]],
        placements: Sequence[Placement],
        first: int,
        other: int,
    ) -> None:
        """Refuse engines that cannot share the bundles of a group."""
        one, two = placements[first], placements[other]
        counts = [
            f"{each.min_replicas} to {each.max_replicas}, {each.num_replicas} at the start"
            for each in (one, two)
        ]
        labels = [str(dict(each.labels)) for each in (one, two)]
        for what, (its, own) in (("replicas", counts), ("labels", labels)):
            if its != own:
                raise SettingsError(
                    f"groups.{name}: Invalid '{what}' of '{_named(engines[other])}': {own}."
                    f" Must equal those of '{_named(engines[first])}' ({its}), as the stages of a"
                    " group share hosts."
                )

    def _general(self) -> Iterator[StageSection]:
        yield self.file.defaults
        if (model := self.file.models.get(self.name)) is not None:
            yield model.defaults

    def _particular(self, spec: StageSpec) -> Iterator[StageSection]:
        """Yield the sections that name the stage or its kind; later ones win."""
        own_device = self.settings.decoder_device
        if spec.kind is StageKind.DECODER and own_device is not None:
            yield StageSection(devices=(own_device,), apart=True)
        yield from _of(self.file, spec)
        if (model := self.file.models.get(self.name)) is not None:
            yield from _of(model, spec)

    def _joins(self, decoder: StageSpec, before: StageSpec) -> bool:
        own, its = _laid_over(self._particular(decoder)), self.section(before).model_dump()
        wanted = StageSection.model_validate(own).model_dump()
        apart = [key for key in _PLACE if key in own and wanted[key] != its[key]]
        if own.get("apart") is False and apart:
            raise SettingsError(
                f"stages.{decoder.name}: apart is false, but its {', '.join(apart)} differ from"
                f" those of '{before.name}', which feeds it."
            )
        return not apart and not own.get("apart")

    def _check_shared(self, spec: StageSpec, first: StageSpec) -> None:
        """Refuse what a stage cannot have for itself in an engine that it shares."""
        own, its = _laid_over(self._particular(spec)), self.section(first).model_dump()
        wrong = [
            key
            for key in ("max_batch", "memory_fraction", "cache_gib", "dtype")
            if key in own and own[key] != its[key]
        ]
        if wrong:
            raise SettingsError(
                f"stages.{spec.name}.{wrong[0]}: the stage shares the engine of '{first.name}'."
                f" Set it there, or give '{spec.name}' devices of its own, or apart: true."
            )

    def _load_settings(
        self, section: StageSection, chunks: Mapping[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        """Yield the context fields that the placement overrides."""
        if section.cache_gib is not None:
            yield "cache_bytes", int(section.cache_gib * _GIB)
        if section.dtype is not None:
            yield "dtype", section.dtype
        if chunks:
            yield "playback", playback_policy(self.settings.model_copy(update=dict(chunks)))

    def _check_fabric(self, name: str, placement: Placement) -> None:
        most = placement.num_most
        where = f"Stages '{name}' of '{self.name}'"
        if self.fabric == "local":
            wrong = {
                f"{most} replicas": most > 1,
                f"{len(placement.devices)} devices": len(placement.devices) > 1,
                "labels": bool(placement.labels),
                "an environment of their own": bool(placement.environment),
                "a share of the memory": placement.memory_fraction is not None,
            }
            if refused := [what for what, is_wrong in wrong.items() if is_wrong]:
                raise SettingsError(
                    f"{where}: {' and '.join(refused)} need the fabric 'process' or 'ray';"
                    " 'local' runs each stage once, in this process."
                )
        elif self.fabric == "process" and placement.labels:
            raise SettingsError(
                f"{where}: labels choose among hosts, which takes the fabric 'ray'."
            )
        elif self.fabric == "ray":
            devices = [placement.device, *placement.devices]
            if numbered := [each for each in devices if each and ":" in each]:
                raise SettingsError(
                    f"{where}: Ray chooses among GPUs: give 'gpus' (of each replica) and labels"
                    f" instead of the device {numbered[0]}."
                )
            if len(set(placement.devices)) > 1:
                raise SettingsError(
                    f"{where}: Invalid 'devices': {', '.join(placement.devices)}. Replicas on Ray"
                    " are alike: name one device and the number of 'replicas'."
                )


def playback_policy(settings: ModelSettings) -> PlaybackPolicy:
    """Return the playback policy of a model's codec settings."""
    return PlaybackPolicy(
        first_frames=settings.initial_codec_chunk_frames,
        largest_frames=settings.codec_chunk_frames,
        spacing=settings.codec_chunk_growth,
    )


def _named(specs: Sequence[StageSpec]) -> str:
    return "+".join(spec.name for spec in specs)


def _first_devices(devices: tuple[str, ...], num_ranks: int) -> tuple[str, ...]:
    """Return the devices of the first ranks of replicas, so that no two replicas share a GPU.

    Args:
        devices: devices of the replicas, or all GPUs that they share.
    """
    if num_ranks == 1:
        return devices
    taken: dict[str, tuple[str, ...]] = {}
    for device in devices:
        if not any(device in ranks for ranks in taken.values()):
            taken[device] = devices_of_ranks(device, num_ranks)
    if len(taken) == len(devices):
        return devices
    whole = tuple(device for device, ranks in taken.items() if set(ranks) <= {*devices})
    return whole or devices[:1]


def _of(section: ModelSection, spec: StageSpec) -> Iterator[StageSection]:
    for key in (spec.kind.value, spec.name):
        if (found := section.stages.get(key)) is not None:
            yield found


def _laid_over(parts: Iterable[StageSection]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for part in parts:
        for key, value in part.model_dump(exclude_unset=True).items():
            if key in ("labels", "environment"):
                value = {**merged.get(key, {}), **value}
            merged[key] = value
    return merged
