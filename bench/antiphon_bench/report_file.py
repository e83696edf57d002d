"""Reader of a suite's report, and differences in the conditions of two reports."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from antiphon.errors import SettingsError
from antiphon_bench.record import Outcome
from antiphon_bench.suite import SCHEMA

_COMMANDS = {
    "serve": "serve",
    "engine": "engine",
    "chat": "chat",
    "spoken_chat": "chat",
    "fabric": "fabric",
    "quality": "quality",
}
"""By the kinds of reports that are not compared."""
_HARDWARE = ("machine", "cpu", "cores", "gpus", "packages")
_SETTINGS = (
    *("server", "model", "random", "family", "voice", "fields", "frames", "rounds"),
    *("prebuffer_s", "pieces_per_s", "timeout_s", "client_processes", "interrupted"),
)
_MISSING = "not stated"
_Seconds = Annotated[float, Field(ge=0)]


class _Checked(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False, extra="ignore")


class _RecordTold(_Checked):
    """A request as `antiphon_bench.suite.raw` writes it."""

    index: int
    due_s: float
    sent_s: float
    ended_s: float
    outcome: Outcome
    status: int
    num_characters: int
    first_byte_s: float | None
    first_sound_s: float | None
    num_tokens: int | None
    arrivals_s: list[float]
    durations_s: list[_Seconds]

    @model_validator(mode="after")
    def _pieces_have_times(self) -> "_RecordTold":
        if len(self.arrivals_s) != len(self.durations_s):
            raise ValueError("arrivals_s and durations_s are not as many")
        return self


class _CellTold(_Checked):
    cell: str
    records: list[list[_RecordTold]]


class _ReportTold(_Checked):
    cells: list[_CellTold]
    prebuffer_s: _Seconds = 0.0


def read_report(file: Path) -> dict[str, Any]:
    """Read a suite's JSON; raises SettingsError if it is none, or something in it is wrong."""
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{file}: cannot be read: {error}") from error
    kind = report.get("kind") if isinstance(report, dict) else None
    if kind != "suite":
        command = _COMMANDS.get(kind) if isinstance(kind, str) else None
        origin = f" but of `antiphon bench {command}`" if command else ""
        raise SettingsError(f"{file}: is no report of `antiphon bench suite`{origin}.")
    if report.get("schema", SCHEMA) != SCHEMA:
        raise SettingsError(
            f"{file}: was written by another version, as schema {report['schema']}."
        )
    try:
        _ReportTold.model_validate(report)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise SettingsError(f"{file}: {place}: {first['msg']}.") from error
    return dict(report)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences in conditions of two reports: hardware, settings, cells."""
    for title, names in (("hardware", _HARDWARE), ("settings", _SETTINGS)):
        for name in names:
            old, new = before.get(name, _MISSING), after.get(name, _MISSING)
            if old != new and _MISSING not in (old, new):
                yield f"Other {title}: {name}: {_short(old)} and {_short(new)}"
    first, second = ({each["cell"]: each for each in report["cells"]} for report in (before, after))
    yield from (f"Only in the first: {name}" for name in first if name not in second)
    yield from (f"Only in the second: {name}" for name in second if name not in first)
    for name in first:
        if name in second:
            yield from _of_cell(name, first[name], second[name])


def _of_cell(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    counts = [sum(map(len, each["records"])) for each in (before, after)]
    if counts[0] != counts[1]:
        yield f"{name}: {counts[0]} and {counts[1]} requests"
    old, new = before.get("load") or {}, after.get("load") or {}
    for member in ("seed", "ramp_s", "duration_s"):
        if old.get(member) != new.get(member):
            yield f"{name}: {member}: {old.get(member)} and {new.get(member)}"
    for which, cell in (("first", before), ("second", after)):
        outcomes = {each["outcome"] for records in cell["records"] for each in records}
        if "ok" not in outcomes:
            yield f"{name}: no request of the {which} was answered whole"


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
