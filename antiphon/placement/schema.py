"""Schema of placement files."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from antiphon.fabric.base import GroupStrategy

ALL_GPUS = "all"
"""As devices: every GPU of this host."""

_DEVICE = r"^(cpu|cuda|cuda:\d+|auto|all)$"


class PlacementSection(BaseModel):
    """Base of all sections: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ReplicaRange(PlacementSection):
    """Number of replicas: minimum, maximum and start."""

    start: int | None = Field(None, ge=1, description="At the start; default: min.")
    min: int = Field(1, ge=1, description="That autoscaling leaves.")
    max: int = Field(ge=1, description="That autoscaling adds up to.")

    @model_validator(mode="after")
    def _is_ordered(self) -> "ReplicaRange":
        if not self.min <= self.first <= self.max:
            raise ValueError(
                f"min, start and max must ascend, not {self.min}, {self.first}, {self.max}"
            )
        return self

    @property
    def first(self) -> int:
        """Replicas at the start."""
        return self.min if self.start is None else self.start


def _range(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return {"min": value, "max": value} if is_number else value


def _list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _texts(value: Any) -> Any:
    """Let numbers and booleans of YAML be values of labels and variables."""
    if not isinstance(value, dict):
        return value
    return {key: _text(each) for key, each in value.items()}


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Device: TypeAlias = Annotated[str, Field(pattern=_DEVICE)]
Texts: TypeAlias = Annotated[dict[str, str], BeforeValidator(_texts)]


class StageSection(PlacementSection):
    """Where a stage runs, how often, and with what; omitted values are inherited."""

    devices: Annotated[tuple[Device, ...], BeforeValidator(_list)] | None = Field(
        None, min_length=1, description="Of the replicas, in turn; all: every GPU of this host."
    )
    replicas: Annotated[ReplicaRange, BeforeValidator(_range)] | None = Field(
        None, description="A number, or min, max and start; default: one for each device."
    )
    gpus: float | None = Field(None, ge=0, description="Of each replica; a fraction shares one.")
    cpus: float | None = Field(
        None, ge=0, description="Of each replica, which Ray reserves; a fraction shares one."
    )
    apart: bool | None = Field(
        None, description="Whether a decoder has an engine apart from the stage that feeds it."
    )
    max_batch: int | None = Field(None, ge=1, description="Requests that a replica works on.")
    memory_fraction: float | None = Field(
        None, gt=0, le=1, description="Of a device's memory that a replica may use."
    )
    cache_gib: float | None = Field(None, gt=0, description="Memory for keys and values.")
    dtype: Literal["auto", "bfloat16", "float32"] | None = None
    initial_codec_chunk_frames: int | None = Field(None, ge=1)
    codec_chunk_frames: int | None = Field(None, ge=1)
    codec_chunk_growth: int | None = Field(None, ge=2)
    labels: Texts = Field(default_factory=dict, description="That the host of a replica has.")
    environment: Texts = Field(default_factory=dict, description="Of a replica's process.")


class GroupSection(PlacementSection):
    """Stages of a model whose replicas start together on Ray, one of each on a host."""

    stages: Annotated[tuple[str, ...], BeforeValidator(_list)] = Field(
        min_length=1, description="Names or kinds of stages."
    )
    strategy: GroupStrategy = Field(
        "SPREAD", description="How the bundles of one replica of each are put on hosts."
    )


class ModelSection(PlacementSection):
    """Sections that apply to one model only."""

    defaults: StageSection = StageSection()
    stages: dict[str, StageSection] = Field(default_factory=dict)
    groups: dict[str, GroupSection] = Field(default_factory=dict)


class PlacementFile(ModelSection):
    """A whole file, or several that have been merged.

    Attributes:
        extends: profiles, or files beside this one, on which this one is overlaid.
        fabric: fabric that places stages, as in `ServerSettings`.
        front_ends: number of front ends, as in `ServerSettings`.
        stages: sections by a stage's name, or by a kind of stage: autoregressive, decoder,
            generator, encoder. A name wins over a kind.
        groups: stages that start together, by a name of the group.
        models: overrides for one model, by served name.
    """

    extends: Annotated[tuple[str, ...], BeforeValidator(_list)] = ()
    fabric: Literal["local", "process", "ray"] | None = None
    front_ends: int | None = Field(None, ge=0)
    models: dict[str, ModelSection] = Field(default_factory=dict)
