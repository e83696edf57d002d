"""What a family declares, as data: what it can do, which stages it has and where their code is."""

from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from antiphon.types import Sampling, Voice


class StageKind(StrEnum):
    """How a stage is driven; the pipeline holds one driver for each kind."""

    AUTOREGRESSIVE = "autoregressive"  # an engine steps it: prompt -> frames
    DECODER = "decoder"  # carries state per request: frames -> audio
    GENERATOR = "generator"  # owns its loop: prompt -> audio


@dataclass(frozen=True, slots=True)
class LoadContext:
    """Where and how a model is loaded; the only argument of every factory.

    Attributes:
        path: a checkpoint's directory, or ``None`` for a family that ships its weights.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, or ``"auto"``.
        dtype: ``"auto"``, ``"bfloat16"`` or ``"float32"``.
        max_slots: requests that one stage works on at the same time.
    """

    path: Path | None = None
    device: str = "auto"
    dtype: str = "auto"
    max_slots: int = 32


@dataclass(frozen=True, slots=True)
class Ref:
    """An object, named as ``"module:attribute"`` and imported on use: declaring stays cheap."""

    target: str

    def resolve(self) -> Any:
        module, _, attribute = self.target.partition(":")
        return vars(import_module(module))[attribute]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a loaded model can do; requests outside it are refused before any work.

    Attributes:
        sample_rate_hz: of the audio it makes.
        voices: never empty; the first one is the default.
        languages: accepted values of ``language`` (lower case); empty if it cannot be chosen.
        instructions: whether ``instructions`` changes the voice.
        max_segment_characters: longest text that one prompt holds; longer text is split.
    """

    sample_rate_hz: int
    voices: tuple[Voice, ...]
    languages: tuple[str, ...] = ()
    instructions: bool = False
    max_segment_characters: int = 1000

    def __post_init__(self) -> None:
        if not self.voices:
            raise ValueError("a model needs at least one voice")


@dataclass(frozen=True, slots=True)
class StageSpec:
    """A part of a pipeline that can be placed and replicated.

    ``factory`` takes a `LoadContext` and returns what ``kind`` is driven through:
    a `Runner`, a `StreamingDecoder` or a `SpeechGenerator`.
    """

    name: str
    kind: StageKind
    factory: Ref


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """The chain of stages, first to last."""

    stages: tuple[StageSpec, ...]

    def __post_init__(self) -> None:
        kinds = tuple(stage.kind for stage in self.stages)
        chains = ((StageKind.GENERATOR,), (StageKind.AUTOREGRESSIVE, StageKind.DECODER))
        if kinds not in chains:
            raise ValueError(f"stages {kinds} do not form a pipeline; known chains: {chains}")
        if len({stage.name for stage in self.stages}) != len(self.stages):
            raise ValueError("stage names must differ")


class NoOptions(BaseModel):
    """The options of a family that has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All that the rest of the system knows of one kind of model.

    Attributes:
        name: as in the registry.
        title: one line for people.
        architectures: values of ``architectures`` in a checkpoint's config.json.
        needs_checkpoint: whether a path must be given, or the weights come with a package.
        prompter: takes a `LoadContext`, returns a `Prompter`.
        pipeline: the stages.
        options: request fields that only this family knows.
        sampling: defaults, every field set that the family uses.
    """

    name: str
    title: str
    prompter: Ref
    pipeline: PipelineSpec
    architectures: tuple[str, ...] = ()
    needs_checkpoint: bool = False
    options: type[BaseModel] = NoOptions
    sampling: Sampling = Sampling()
