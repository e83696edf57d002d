"""A stage builder that records the context that each stage is loaded with, and in which process."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from antiphon.contracts.family import LoadContext, Ref, StageSpec
from antiphon.telemetry.stage_status import Publish
from tests.fabric.cluster.refusing_stage import RefusingStage

BUILDER = Ref("tests.fabric.cluster.recorded_loads:build_recorded_stage")
FILE_VARIABLE = "RECORDED_LOADS"
"""Environment variable of the stage processes: the path of the file of records."""


@dataclass(frozen=True, slots=True)
class RecordedLoad:
    """The load of the stages of one replica, with what the builder got.

    ``visible`` is the value of ``CUDA_VISIBLE_DEVICES`` in the process that loaded them.
    """

    stages: str
    device: str
    memory_fraction: float | None
    memory_utilization: float | None
    pid: int
    visible: str | None


def build_recorded_stage(
    specs: Sequence[StageSpec], context: LoadContext, publish: Publish
) -> RefusingStage:
    load = RecordedLoad(
        "+".join(spec.name for spec in specs),
        context.device,
        context.memory_fraction,
        context.memory_utilization,
        os.getpid(),
        os.environ.get("CUDA_VISIBLE_DEVICES"),
    )
    line = f"{json.dumps(asdict(load))}\n".encode()
    file = os.open(os.environ[FILE_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line)  # one call: several processes write
    finally:
        os.close(file)
    return RefusingStage(0.0)


def recorded(file: Path) -> list[RecordedLoad]:
    if not file.exists():
        return []
    return [RecordedLoad(**json.loads(line)) for line in file.read_text().splitlines()]
