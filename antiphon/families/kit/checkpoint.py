"""Declaration of checkpoints as parts, and inspection by their files' headers, without torch."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

from antiphon.contracts.inspection import Inspection, Table
from antiphon.errors import ModelLoadError
from antiphon.families.kit.random_checkpoint import has_drawn_weights
from antiphon.nn.quantized.directory import read_directory
from antiphon.nn.safetensors_index import (
    DTYPES,
    STEM,
    Shape,
    TensorHeader,
    layout_problems,
    some,
    without,
)

Facts: TypeAlias = Mapping[str, str | int | tuple[str, ...]]
Found = TypeVar("Found")


@dataclass(slots=True)
class Findings:
    """Problems found so far; each method adds its own.

    Attributes:
        is_drawn: whether the checkpoint was made without weights, whose files may be missing.
    """

    problems: list[str] = field(default_factory=list)
    is_drawn: bool = False

    @classmethod
    def of(cls, path: Path) -> "Findings":
        """Start the inspection of a checkpoint's directory."""
        return cls(is_drawn=has_drawn_weights(path))

    def attempt(self, read: Callable[[], Found]) -> Found | None:
        """Return the result of ``read``, ``None`` if it raised ModelLoadError."""
        try:
            return read()
        except ModelLoadError as error:
            self.problems.append(error.message)
            return None

    def tensors(
        self,
        directory: Path,
        layout: Mapping[str, Shape] | None,
        *,
        stem: str = STEM,
        others: str | None = None,
    ) -> list[TensorHeader]:
        """Return the headers of a directory's tensors after checking them; see `check_layout`."""
        found = None if self.is_drawn else self.attempt(lambda: read_directory(directory, stem))
        headers = without(others, {name: header for name, (_, header) in (found or {}).items()})
        if found is not None:
            self.check_dtypes(directory, headers.values())
            self.check_layout(directory, headers, layout)
        return [*headers.values()]

    def check_dtypes(self, where: Path, headers: Iterable[TensorHeader]) -> None:
        """Compare number types with `DTYPES`."""
        if odd := {header.dtype for header in headers if not header.is_readable}:
            self.problems.append(f"{where}: tensors are {some(odd)}, not {', '.join(DTYPES)}")

    def check_layout(
        self,
        where: Path,
        headers: Mapping[str, TensorHeader],
        layout: Mapping[str, Shape] | None,
        others: str | None = None,
    ) -> None:
        """Compare names and shapes with a layout.

        Args:
            where: folder or file, for messages.
            layout: expected tensors; ``None``: the configuration cannot be read.
            others: regular expression of names to ignore.
        """
        if layout is not None:
            shapes = {name: each.shape for name, each in without(others, headers).items()}
            problems = layout_problems(shapes, layout)
            self.problems += [f"{where}: tensors {problem}" for problem in problems]

    def inspection(self, facts: Facts, *tables: Table) -> Inspection:
        """Return the result with these facts and tables."""
        if self.is_drawn:
            facts = {**facts, "Weights": "random, drawn when they are loaded"}
        return Inspection(facts=facts, tables=tables, problems=tuple(self.problems))


def num_parameters(headers: Iterable[TensorHeader]) -> int:
    return sum(header.num_values for header in headers)


def by_prefix(
    headers: Iterable[TensorHeader], parts: Mapping[str, str], rest: str
) -> list[tuple[str, TensorHeader]]:
    """Return tensors with the titles of their components.

    Args:
        parts: titles by prefix of the tensors' names; the first match applies.
    """
    return [
        (next((parts[start] for start in parts if header.name.startswith(start)), rest), header)
        for header in headers
    ]


def components(tensors: Iterable[tuple[str, TensorHeader]]) -> Table:
    """Return parameters, bytes and number types by component, from tensors with its title."""
    parts: dict[str, list[TensorHeader]] = {}
    for part, header in tensors:
        parts.setdefault(part, []).append(header)
    rows = []
    for part, found in parts.items():
        dtypes = ", ".join(sorted({header.dtype for header in found}))
        num_bytes = sum(header.num_bytes for header in found)
        rows.append((part, num_parameters(found), num_bytes, dtypes))
    columns = ("Component", "Parameters", "Bytes", "Type")
    return Table(title="Components", columns=columns, rows=tuple(rows))
