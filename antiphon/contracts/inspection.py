"""Findings about a checkpoint that is not loaded, as data."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of an `Inspection` under a heading; every row has a cell for each column."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int, ...], ...]


def files_table(directory: Path) -> Table:
    files = sorted(file for file in directory.rglob("*") if file.is_file())
    rows = tuple((file.relative_to(directory).as_posix(), file.stat().st_size) for file in files)
    return Table(title="Files", columns=("File", "Bytes"), rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """Description of a checkpoint, found without loading it.

    Attributes:
        facts: short answers by name, in the order in which people want them.
        problems: why it cannot be served; empty if it can.
    """

    facts: Mapping[str, str | int | tuple[str, ...]]
    tables: tuple[Table, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """GPU footprint of speech, found without loading the checkpoint.

    Attributes:
        read_bytes: Bytes of weights that a step reads to make a frame in every stream.
        stream_flop: additions and multiplications of the model for one stream's frame.
        decoder_flop: The same of the decoder.
        position_bytes: Bytes of keys and values of a position, of a prompt or a frame.
        num_launches: kernels that a step of few streams launches, one after the other.
        num_resident: Number of these that one resident program replaces, where there is one.
        resident_streams: Largest number of streams of that program.
        measured_ms: Measured times of a frame, by the name of a card and the number of streams.
    """

    weight_bytes: int
    read_bytes: int
    stream_flop: int
    decoder_flop: int
    position_bytes: int
    num_launches: int
    frames_per_s: float
    prompt_positions: int
    measured_ms: Mapping[str, Mapping[int, float]]
    num_resident: int = 0
    resident_streams: int = 0
