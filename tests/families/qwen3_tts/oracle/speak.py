"""Says every case of `cases.LIVE_CASES` with the official package, greedily and in float32.

Runs inside the oracle's environment: ``python speak.py CHECKPOINTS OUTPUT.npz``, where the folder
CHECKPOINTS holds one directory for each key of `cases.LIVE_CHECKPOINTS`.

    CASE/codes              int16 [frames, 16]
    CASE/audio              float32 [samples]
    CASE/reference/codes    int16 [frames, 16], of a case with a reference
    CASE/reference/speaker  float32 [talker's width], of the same
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

cases: Any = import_module("cases")
record: Any = import_module("record")


def speak(checkpoints: Path) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for case in cases.LIVE_CASES:
        recorder = record.Recorder(checkpoints / case.checkpoint, record.torch.float32)
        codes, _, audio = recorder.run(case)
        arrays |= {f"{case.id}/codes": codes, f"{case.id}/audio": audio}
        if case.reference is not None:
            heard = recorder.reference(case.reference)
            for part in ("codes", "speaker"):
                arrays[f"{case.id}/reference/{part}"] = heard[part]
    return arrays


if __name__ == "__main__":
    record.torch.set_num_threads(1)
    arrays: dict[str, Any] = dict(speak(Path(sys.argv[1])))
    np.savez(sys.argv[2], **arrays)
