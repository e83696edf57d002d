"""Records the codes of every case of `cases.SPOKEN_CASES`, said by the official package.

Runs inside the oracle's environment: ``python record_spoken.py CHECKPOINTS OUTPUT.npz``, where the
folder CHECKPOINTS holds one directory for each key of `cases.CHECKPOINTS` that a case names. As in
record.py, a case is kept only if float64 gives the same codes. The file has an array ``CASE``,
int16 ``[frames, 16]``, for each.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

cases: Any = import_module("cases")
record: Any = import_module("record")


def record_spoken(checkpoints: Path) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for name in sorted({case.checkpoint for case in cases.SPOKEN_CASES}):
        single = record.Recorder(checkpoints / name, record.torch.float32)
        double = record.Recorder(checkpoints / name, record.torch.float64)
        for case in cases.SPOKEN_CASES:
            if case.checkpoint == name:
                arrays[case.id] = single.run(case)[0]
                sys.stdout.write(f"{case.id}: {len(arrays[case.id])} frames\n")
                if not np.array_equal(arrays[case.id], double.run(case)[0]):
                    sys.exit(f"{case.id}: rounding decides; change its text")
    return arrays


if __name__ == "__main__":
    record.torch.set_num_threads(1)
    arrays: dict[str, Any] = dict(record_spoken(Path(sys.argv[1])))
    np.savez_compressed(sys.argv[2], **arrays)
