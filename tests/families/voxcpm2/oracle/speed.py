"""How fast the official package speaks, on the random weights that `antiphon bench` measures.

    python -m tests.families.voxcpm2.oracle.speed --random-dir kept --json voxcpm.json

One stream, since it has no batches; on a GPU its networks are compiled, as its own command does. A
patch is an autoregressive step with ten steps of the flow; the audio of all is decoded at the end.
The package may be in the folder of VOXCPM_ORACLE (see `official`) or beside us.
"""

import time
from pathlib import Path
from typing import Any

import torch

from antiphon_bench.engine import TEXT
from tests.bench.peer import device_of, files_of, peer_flags, report
from tests.families.voxcpm2.oracle.official import official_module

_NUM_STEPS = 10
_GUIDANCE = 2.0
_WARM_UP_PATCHES = (4, 16)  # compiles, and captures graphs


def load(checkpoint: Path, device: str) -> Any:
    model = official_module().VoxCPM2Model
    return model.from_local(str(checkpoint), optimize=device == "cuda", device=device)


def speak(model: Any, num_patches: int) -> dict[str, float]:
    """Speak so many patches; return how long that took."""
    begun_s = time.perf_counter()
    audio = model.generate(
        target_text=TEXT,
        min_len=num_patches,
        max_len=num_patches,
        inference_timesteps=_NUM_STEPS,
        cfg_value=_GUIDANCE,
    )  # its samples are on the host: the device has ended
    took_s = time.perf_counter() - begun_s
    audio_s = audio.shape[-1] / model.sample_rate
    return {
        "num_patches": num_patches,
        "patch_ms": took_s * 1000 / num_patches,
        "audio_s": audio_s,
        "real_time_factor": took_s / audio_s,
    }


def main() -> None:
    parser = peer_flags(__doc__.split("\n")[0], "2b")
    parser.add_argument("--patches", type=int, default=60, help="of each run")
    parser.add_argument("--runs", type=int, default=2)
    given = parser.parse_args()
    torch.manual_seed(0)
    model = load(files_of(given, "voxcpm2", "custom_voice"), device_of(given.device))
    for num_patches in _WARM_UP_PATCHES:
        speak(model, num_patches)
    report(given, "voxcpm", [speak(model, given.patches) for _ in range(given.runs)])


if __name__ == "__main__":
    main()
