"""Flags that several measurements have, declared once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from antiphon.cli.flags import flag

RandomFamily: TypeAlias = Annotated[
    str | None,
    flag("The family of the random weights, with sizes of its own.", "the one of the sizes above"),
]
Device: TypeAlias = Annotated[str, flag("cpu, cuda, cuda:N or auto.", True)]
Dtype: TypeAlias = Annotated[str, flag("auto, bfloat16 or float32.", True)]
Quantize: TypeAlias = Annotated[str | None, flag("Weights: int8, or fp16 on a CPU.", "dtype")]
CpuThreads: TypeAlias = Annotated[
    int | None, flag("Threads on a CPU, the codec's beside them.", "all cores but one", min=1)
]
ApiKey: TypeAlias = Annotated[
    str | None, flag("Of the server; no report has it.", envvar="ANTIPHON_API_KEY")
]
Voice: TypeAlias = Annotated[str | None, flag("Who speaks.", "the server's default")]
Field: TypeAlias = Annotated[
    list[str] | None,
    flag("Further member KEY=VALUE of each request; VALUE may be JSON. Repeatable."),
]
JsonFile: TypeAlias = Annotated[Path | None, flag("Write everything here.", False, "--json")]


@dataclass(frozen=True, slots=True)
class MeasuredServerFlags:
    """The server that is measured: one that runs, or one of our own."""

    url: Annotated[str | None, flag("A server that is running.")] = None
    model: Annotated[str | None, flag("Start a server of our own for this model.")] = None
    device: Annotated[str, flag("Of a server of our own.", True)] = "auto"
    api_key: ApiKey = None


@dataclass(frozen=True, slots=True)
class LoadFlags(MeasuredServerFlags):
    """A server, and what its clients do."""

    random: Annotated[
        str | None, flag("Start one for random weights of this size: 1.7b, 0.6b or tiny.")
    ] = None
    family: RandomFamily = None
    rate: Annotated[str | None, flag("Requests a second at random times, comma-separated.")] = None
    duration_s: Annotated[
        float | None, flag("No request of a load begins later than this.", min=0.001)
    ] = None
    warmup: Annotated[int | None, flag("Requests before each load.", "one a stream", min=0)] = None
    seed: Annotated[int, flag("Of texts and arrival times.", True)] = 0
    voice: Voice = None
    field: Field = None
    frames: Annotated[
        str | None, flag("Cut each answer at a random number of frames, FEWEST-MOST.")
    ] = None
    prebuffer_ms: Annotated[
        float, flag("Audio that a listener collects before playing.", True, min=0)
    ] = 0.0
    timeout_s: Annotated[
        float, flag("An answer that is not complete by then has failed.", True, min=0.1)
    ] = 600.0
    processes: Annotated[
        int | None, flag("Of clients.", "a quarter of the cores, up to 4", min=1)
    ] = None
