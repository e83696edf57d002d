"""What a GPU captures in graphs makes the CPU's codes, run as it is in Triton's interpreter."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engine.drive import generate
from tests.kernels import why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.contracts.family import LoadContext
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import load_runner
from antiphon.nn import kernels
from antiphon.nn.graphs import Graphs
from tests.families.qwen3_tts.lm import DRAWN, GREEDY, made_prompt

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.is_available(), reason="test_gpu.py does it with graphs"),
]

NUM_SLOTS, MAX_POSITIONS, MAX_FRAMES = 4, 128, 2


class _CalledGraphs(Graphs):
    """Calls what would be captured when it would be replayed."""

    def __init__(self, device: torch.device, **options: Any) -> None:
        super().__init__(device, **options)
        self.is_enabled = True

    def __contains__(self, key: object) -> bool:
        return True

    def capture(self, key: object, function: object) -> None:
        pass


def test_prompts_of_every_kind_in_one_pass(
    checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = checkpoint("tiny", CheckpointTask.BASE)
    context, config = LoadContext(path, "cpu", "float32", NUM_SLOTS), load_config(path)
    prompts = {
        slot: made_prompt(
            config,
            seed=slot,
            num_reference_frames=count,
            sampling=GREEDY if slot == 2 else DRAWN,
        )
        for slot, count in enumerate((None, 0, 1, 12))
    }
    with closing(load_runner(context, max_positions=MAX_POSITIONS)) as runner:
        alone = {
            slot: generate(runner, {slot: prompt}, MAX_FRAMES)[slot].codes
            for slot, prompt in prompts.items()
        }
    monkeypatch.setattr(kernels, "run_on", lambda tensor: True)
    monkeypatch.setattr("antiphon.engine.model_runner.model_runner.Graphs", _CalledGraphs)
    with closing(load_runner(context, max_positions=MAX_POSITIONS, is_batched=True)) as runner:
        together = generate(runner, prompts, MAX_FRAMES)
    assert {slot: each.codes for slot, each in together.items()} == alone
