"""Prints which kernels are compiled for requests: ``python -m ...late_compilation CHECKPOINT``.

In a process of its own: what another runner has had compiled is not compiled again.
"""

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import triton

from antiphon.contracts.family import LoadContext
from antiphon.engine.plan import Start
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import load_runner
from tests.engine.drive import Drive, generate
from tests.families.qwen3_tts.lm import made_prompt

NUM_SLOTS = 8


def names_of_late_ones(path: Path) -> list[str]:
    """Return the names of kernels that are not compiled when the runner is ready."""
    names: list[str] = []

    def note(*, fn: Any, **_: object) -> None:
        names.append(fn.name)

    config = load_config(path)
    prompts = [
        made_prompt(config, seed=seed, num_reference_frames=count)
        for seed, count in enumerate((None, 0, 1, 20, 3, None, 12, 40))
    ]
    context = LoadContext(path, "cuda", "bfloat16", NUM_SLOTS)
    with closing(load_runner(context, max_positions=256)) as runner:
        triton.knobs.runtime.jit_post_compile_hook = note
        for prompt in prompts:
            generate(runner, {0: prompt}, max_frames=3)
        made = generate(runner, dict(enumerate(prompts)), max_frames=6)
        drive = Drive(runner)
        for slot, prompt in enumerate(prompts):  # they have lost their slots, and go on
            drive.step((slot,), starts=[Start(slot, prompt, tuple(made[slot].frames[:4]))])
    return names


if __name__ == "__main__":
    sys.stdout.write(json.dumps(names_of_late_ones(Path(sys.argv[1]))))
