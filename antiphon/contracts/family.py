"""Declarations of a family, as data: tasks, capabilities, stages, and references to its code."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from pydantic import BaseModel

from antiphon.config import LoadFormat, ModelSettings
from antiphon.config.diffusion import Acceleration, DiffusionSettings
from antiphon.contracts.engine_limits import AdmissionLimits, PlaybackPolicy
from antiphon.contracts.sampling import SamplingRanges
from antiphon.contracts.types import LoadProgress, Sampling, SpeechRequest, Voice
from antiphon.contracts.well_formed import StrictOptions
from antiphon.errors import how_to_install


class StageKind(StrEnum):
    """Kind of a stage's driver; the pipeline holds one driver for each kind."""

    AUTOREGRESSIVE = "autoregressive"  # an engine steps a `Runner`
    DECODER = "decoder"  # a `StreamingDecoder`, which carries state per request
    GENERATOR = "generator"  # a `StageGenerator`, which owns its loop
    DIFFUSION = "diffusion"  # a `Denoiser`, which the driver steps for many requests
    ENCODER = "encoder"  # a `BatchEncoder` or a `StageGenerator`, of what requests bring


class ItemKind(StrEnum):
    TEXT = "text"
    TOKENS = "tokens"
    FRAMES = "frames"  # of codes or latents, one for each step of an autoregressive stage
    LATENTS = "latents"
    AUDIO = "audio"
    IMAGE = "image"
    VIDEO = "video"


@dataclass(frozen=True, slots=True)
class LoadContext:
    """Device and settings of loading a model; the only argument of every factory.

    It can be pickled, but for `progress`: a fabric that crosses a process replaces that.

    Attributes:
        path: a checkpoint's directory, or ``None`` for a family that ships its weights.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, or ``"auto"``.
        dtype: ``"auto"``, ``"bfloat16"`` or ``"float32"``.
        max_slots: requests that one stage works on at the same time.
        has_fixed_slots: whether a model is refused that has no memory for so many.
        cache_bytes: Memory for keys, values and the like of requests; ``None``: the family decides.
        memory_utilization: share of a GPU's memory that may be in use once all is loaded; the cache
            takes what is left of it. ``None``: the cache has its usual size.
        memory_fraction: Share of a GPU's memory that this process may use; ``None``: all.
        is_deterministic: Whether a request's numbers must not depend on its batch.
        admission: limits of the requests that a stage admits.
        playback: sizes of the codec's chunks; ``None``: the defaults.
        load_format: ``"auto"``: weights are read from the checkpoint's files; ``"dummy"``: they are
            random, and its files of weights are not read.
        quantize: type of products' weights, ``"int8"`` or ``"fp16"``; ``None``: ``dtype``.
        cpu_threads: threads of PyTorch's products on a CPU; ``None``: all cores but one.
        trusts_remote_code: whether Python code that a checkpoint brings may be run.
        tasks: names of those that are served; none: all that the checkpoint has what they need for.
        progress: called with the progress of loading; ``None``: not reported.
    """

    path: Path | None = None
    device: str = "auto"
    dtype: str = "auto"
    max_slots: int = ModelSettings().max_slots
    cache_bytes: int | None = None
    memory_utilization: float | None = None
    memory_fraction: float | None = None
    is_deterministic: bool = False
    admission: AdmissionLimits = field(default_factory=AdmissionLimits)
    playback: "PlaybackPolicy | None" = None
    diffusion: DiffusionSettings = field(default_factory=DiffusionSettings)
    load_format: LoadFormat = "auto"
    quantize: str | None = None
    cpu_threads: int | None = None
    trusts_remote_code: bool = False
    tasks: tuple[str, ...] = ()
    progress: LoadProgress | None = None
    has_fixed_slots: bool = False

    @property
    def checkpoint(self) -> Path:
        """The checkpoint's directory, of a family that needs one."""
        assert self.path is not None, "the family needs a checkpoint"
        return self.path

    @property
    def is_dummy(self) -> bool:
        """Whether weights are random."""
        return self.load_format == "dummy"

    def progress_of(self, part: str) -> Callable[[int, int], None] | None:
        """Return the progress callback of one part, by the name that it is shown with."""
        return None if self.progress is None else partial(self.progress, part)


@dataclass(frozen=True, slots=True)
class Ref:
    """An object, named as ``"module:attribute"`` and imported on use: declaring stays cheap."""

    target: str

    def resolve(self) -> Any:
        return resolve_name(self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Capabilities of a loaded model in one task; other requests are refused before any work.

    Attributes:
        sample_request: one that it can serve with nothing added, to warm up and to measure.
        needs_encoder: whether the task's encoder is needed: ``use_encoder`` of the prompter is
            called with an `Encode` once, before any prompt is built.
    """

    sample_request: Any
    needs_encoder: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceCapabilities(Capabilities):
    """Capabilities of a loaded model that speaks, whatever it reads.

    Attributes:
        channels: Number of channels, 1 or 2; with 2, samples have the shape ``[num_samples, 2]``.
        voices: never empty; the first one is the default.
    """

    sample_rate_hz: int
    channels: int = 1
    voices: tuple[Voice, ...]

    def __post_init__(self) -> None:
        if not self.voices:
            raise ValueError("a model needs at least one voice")
        if self.channels not in (1, 2):
            raise ValueError("speech has 1 or 2 channels: MP3 and others have no more")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechCapabilities(VoiceCapabilities):
    """Capabilities of a loaded model in the task of speech.

    Attributes:
        languages: accepted values of ``language`` (lower case); empty if it cannot be chosen.
        instructions: whether ``instructions`` changes the voice.
        cloning: whether it speaks with voices of recordings; its prompter then is `VoicePreparing`.
        max_segment_characters: a text of up to so many is one prompt, as it is; longer text is
            split. With ``late_text`` a segment may be half as long again, since it ends where text
            is that has been read by then.
        word_times: whether its chunks carry the times of words, for requests that ask for them.
        late_text: whether text may arrive while it is spoken; the prompter is a `LateText` then.
        draws_end: whether the model draws the end of speech, so that ``min_tokens`` and
            ``ignore_eos`` can put it off.
        voice_fields: request fields and options that bring the voice along; beside one of them an
            unknown name of a voice means nothing.
        streams_bytes: whether its clients want bytes by ``"stream": true``, not server-sent events.
        quick_characters: a prompt of fewer, without a recording, is built in a millisecond at most:
            at once then, since a thread's turn is waited for as long.
        writes_out: whether numbers, signs and abbreviations are read in words by the family itself.
        words_only: whether it can read nothing but words: English is written out for it always.
        sampling: ranges of sampling parameters; ``None``: all values are accepted.
    """

    sample_request: SpeechRequest = SpeechRequest("Ready.")
    languages: tuple[str, ...] = ()
    instructions: bool = False
    cloning: bool = False
    max_segment_characters: int = 1000
    word_times: bool = False
    late_text: bool = False
    draws_end: bool = False
    voice_fields: tuple[str, ...] = ()
    streams_bytes: bool = False
    quick_characters: int = 0
    writes_out: bool = False
    words_only: bool = False
    sampling: SamplingRanges | None = None

    def brings_voice(self, request: SpeechRequest) -> bool:
        """Whether a request chooses its voice by other means than a name."""
        fields = {"instructions": request.instructions, **request.options}
        return any(fields.get(name) is not None for name in self.voice_fields)


@dataclass(frozen=True, slots=True)
class StageSpec:
    """A part of a pipeline that can be placed and replicated.

    Attributes:
        name: unique in its pipeline.
        consumes: Items that flow in: of a first stage, the content of its prompts.
        factory: takes a `LoadContext` and returns what the driver of its kind is given.
        max_concurrency: requests that it can work on at once; ``None``: as many as the context
            has slots.
        weights: patterns of the checkpoint's files that it loads, such as ``"*.safetensors"``.
    """

    name: str
    kind: StageKind
    consumes: ItemKind
    produces: ItemKind
    factory: Ref
    max_concurrency: int | None = None
    weights: tuple[str, ...] = ()

    def num_bytes(self, context: LoadContext) -> int:
        """Estimate the memory that it needs: its weights as stored, and a cache of a set size."""
        is_cached = self.kind in (StageKind.AUTOREGRESSIVE, StageKind.DIFFUSION)
        num_bytes = (context.cache_bytes or 0) if is_cached else 0
        if context.path is not None:
            files = {file for pattern in self.weights for file in context.path.glob(pattern)}
            num_bytes += sum(file.stat().st_size for file in files)
        return num_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A kind of request that a family serves.

    Attributes:
        prompter: takes a `LoadContext`, returns what has `Capabilities` and builds prompts: in the
            task of speech a `Prompter`.
        pipeline: the stages, first to last; each consumes what the one before produces.
        encoder: a stage beside them, for the prompter, which encodes what requests bring.
        condition: takes a checkpoint's directory, returns whether that has what the task needs;
            ``None``: every one has.
        options: request fields that only this family knows.
        recordings: names of those options that are recordings. They reach the prompter as samples
            (mono, at the model's rate, read-only) or as a `PreparedVoice`.
        sampling: defaults, every field set that the family uses.
    """

    request: type
    prompter: Ref
    pipeline: tuple[StageSpec, ...]
    encoder: StageSpec | None = None
    condition: Ref | None = None
    options: type[BaseModel] = StrictOptions
    recordings: tuple[str, ...] = ()
    sampling: Sampling = Sampling()

    def __post_init__(self) -> None:
        if not self.pipeline:
            raise ValueError("a task needs at least one stage")
        if len({stage.name for stage in self.pipeline}) != len(self.pipeline):
            raise ValueError("stage names must differ")
        for before, after in pairwise(self.pipeline):
            if after.consumes is not before.produces:
                raise ValueError(
                    f"stage '{after.name}' consumes {after.consumes}, but '{before.name}' before it"
                    f" produces {before.produces}"
                )

    def is_offered(self, path: Path | None) -> bool:
        """Whether a checkpoint has what the task needs; may raise ModelLoadError."""
        return self.condition is None or bool(self.condition.resolve()(path))


_TITLES = {"torch": "PyTorch", "jinja2": "Jinja2", "PIL": "Pillow"}


@dataclass(frozen=True, slots=True)
class Extra:
    """Packages that a family needs beyond those that always come.

    Attributes:
        name: Name of the extra, as in ``pip install '.[NAME]'``.
        packages: names of modules, the most telling one first.
    """

    name: str
    packages: tuple[str, ...]

    @property
    def missing(self) -> str | None:
        """The first package that is not installed, and how to get it; ``None`` if all are."""
        for module in self.packages:
            if find_spec(module) is None:
                title = _TITLES.get(module, module)
                return f"this model needs {title}: {how_to_install(self.name)}"
        return None


@dataclass(frozen=True, slots=True)
class Product:
    """A product of ``num_positions`` vectors of each stream and a matrix named ``weight``."""

    weight: str
    num_outputs: int
    num_inputs: int
    num_positions: int = 1

    @property
    def num_weights(self) -> int:
        """Size of the matrix."""
        return self.num_outputs * self.num_inputs


@dataclass(frozen=True, slots=True)
class Measuring:
    """What measurements of speed need of a family.

    Attributes:
        frame_products: takes a checkpoint's directory, returns one frame's `Product` list in order;
            ``None``: what bounds it is not measured.
        frames_per_token: Frames that a prompter allows for a token of text at least.
        dtype: Type of the weights of a full-size checkpoint of random weights.
        is_usual: whether this family is measured where none is named; of one family of a task.
    """

    task: str = "speech"
    frame_products: Ref | None = None
    frames_per_token: int = 10
    dtype: str = "bfloat16"
    is_usual: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Declaration of one kind of model for the rest of the system.

    Attributes:
        architectures: values of ``architectures`` in a config.json, else of ``model_type``, else of
            ``architecture``.
        config_keys: keys of a config.json that has neither.
        files: patterns of what it needs from the hub, beside JSON, text and safetensors.
        layout: patterns of files by which a checkpoint without config.json is known, all of them.
        gguf: takes the contents of a GGUF file, returns a checkpoint's directory made from it, or
            ``None`` for one of another family.
        needs_checkpoint: whether a path must be given, or the weights come with a package.
        tasks: Tasks by name, such as ``"speech"``.
        extra: packages to be installed before it can be served.
        inspector: takes a checkpoint's directory, returns an `Inspection` (see
            `antiphon.contracts.inspection`); reads no tensor.
        footprint: Reference to a function of the same arguments that returns a `Footprint`.
        checkpoint_maker: writes a checkpoint without weights, which are drawn when it is loaded,
            into a directory; besides it takes ``size``, ``task``, ``vocabulary`` and ``dtype``.
        draws_weights: Support of random weights in place of files.
        accelerations: Supported settings of models that denoise.
        measuring: Requirements of speed measurements, with its ``checkpoint_maker``;
            ``None`` for other families.
    """

    name: str
    title: str
    tasks: Mapping[str, Task]
    architectures: tuple[str, ...] = ()
    config_keys: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    layout: tuple[str, ...] = ()
    gguf: Ref | None = None
    needs_checkpoint: bool = False
    extra: Extra | None = None
    inspector: Ref | None = None
    footprint: Ref | None = None
    checkpoint_maker: Ref | None = None
    draws_weights: bool = False
    quantizes: bool = False
    accelerations: frozenset[Acceleration] = frozenset()
    measuring: "Measuring | None" = None
