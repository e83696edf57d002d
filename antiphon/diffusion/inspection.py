"""Describes checkpoints in diffusers' layout by their indexes and headers; no tensor is read.

Shapes are compared where diffusers is installed, which knows what a configuration makes.
"""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from antiphon.contracts.inspection import Inspection, Table, files_table
from antiphon.diffusion.model_index import ModelIndex
from antiphon.errors import ModelLoadError
from antiphon.nn.safetensors_index import TensorHeader, read_tensor_headers, tensor_files

_STEMS = ("diffusion_pytorch_model", "model")


def inspect_pipeline(
    path: Path, facts: Callable[[Path], Mapping[str, str | int]], *, is_drawn: bool = False
) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not.

    Args:
        facts: function from the directory to the family's facts; raises ModelLoadError if the
            checkpoint cannot be served.
        is_drawn: whether the checkpoint was made without weights.
    """
    problems: list[str] = []
    found: dict[str, str | int | tuple[str, ...]] = {}
    rows: list[tuple[str | int, ...]] = []
    try:
        index = ModelIndex.read(path)
        found["Pipeline"] = index.pipeline
        found |= facts(path)
    except ModelLoadError as error:
        problems.append(error.message)
    else:
        for name, kind in sorted(index.components.items()):
            headers = [] if is_drawn else _headers(path / name, problems)
            if headers:
                dtypes = ", ".join(sorted({header.dtype for header in headers}))
                num_values = sum(header.num_values for header in headers)
                num_bytes = sum(header.num_bytes for header in headers)
                rows.append((name, kind, num_values, num_bytes, dtypes))
                problems += _shape_problems(path / name, kind, headers)
        found["Parameters"] = sum(int(row[2]) for row in rows)
    if is_drawn:
        found["Weights"] = "random, drawn when they are loaded"
    columns = ("Component", "Class", "Parameters", "Bytes", "Type")
    tables = (Table(title="Components", columns=columns, rows=tuple(rows)), files_table(path))
    return Inspection(facts=found, tables=tables, problems=tuple(problems))


def _headers(folder: Path, problems: list[str]) -> list[TensorHeader]:
    """Return the tensors of a component; none of a tokenizer, which has no such files."""
    if not folder.is_dir():
        problems.append(f"{folder}: there is no such directory")
        return []
    if not (folder / "config.json").is_file():
        return []  # no network
    try:
        stem = next((stem for stem in _STEMS if any(folder.glob(f"{stem}*"))), _STEMS[0])
        files = tensor_files(folder, stem)
        return [header for file in files for header in read_tensor_headers(file)]
    except ModelLoadError as error:
        problems.append(error.message)
        return []


def _shape_problems(folder: Path, kind: str, headers: list[TensorHeader]) -> list[str]:
    if find_spec("diffusers") is None:
        return []
    from antiphon.diffusion.tensor_shapes import shape_problems

    return shape_problems(folder, kind, headers)
