"""What the official package made of every case, as `oracle/record.py` recorded it.

The checkpoints are not kept: `make_parity_checkpoint` makes them anew from their seeds.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.families.qwen3_tts.oracle.cases import CASES, CHECKPOINTS, Case
from tests.families.qwen3_tts.random_checkpoint import make_full_checkpoint

_FILE = Path(__file__).parent / "fixtures" / "parity.npz"


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """The official result of a case.

    Attributes:
        codes: int64 ``[num_frames, 16]``.
        hidden: the talker's normed states that group 0 was said from, f32 ``[num_frames, width]``.
        audio: f32 at 24 kHz, of cases that have it.
    """

    case: Case
    codes: NDArray[np.int64]
    hidden: NDArray[np.float32]
    audio: NDArray[np.float32] | None


@dataclass(frozen=True, slots=True, eq=False)
class RecordedReference:
    """What the official package hears in `oracle.cases.reference_audio`.

    Attributes:
        codes: int64 ``[num_frames, 16]``.
        speaker: speaker vector, f32.
        checksum: CRC-32 of the samples that it heard.
    """

    codes: NDArray[np.int64]
    speaker: NDArray[np.float32]
    checksum: int


def recorded() -> list[Recorded]:
    arrays = _arrays()
    return [
        Recorded(
            case,
            arrays[f"codes/{case.id}"].astype(np.int64),
            arrays[f"hidden/{case.id}"],
            arrays.get(f"audio/{case.id}"),
        )
        for case in CASES
    ]


def recorded_reference(name: str) -> RecordedReference:
    """Return what was heard, with `oracle.cases.REFERENCE_CHECKPOINT`, in a reference."""
    arrays = _arrays()
    part = f"reference/{name}"
    return RecordedReference(
        arrays[f"{part}/codes"].astype(np.int64),
        arrays[f"{part}/speaker"],
        int(arrays[f"{part}/checksum"]),
    )


def recorded_array(name: str) -> NDArray[Any]:
    """Return any other array of the file; `oracle/record.py` lists them."""
    return _arrays()[name]


def make_parity_checkpoint(path: Path, name: str) -> None:
    """Write the checkpoint of a key of `oracle.cases.CHECKPOINTS`."""
    size, task, seed = CHECKPOINTS[name]
    chosen: Any = size
    make_full_checkpoint(path, size=chosen, task=task, seed=seed)


@cache
def _arrays() -> dict[str, NDArray[Any]]:
    with np.load(_FILE) as file:
        return dict(file)
