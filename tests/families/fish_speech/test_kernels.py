"""Steps by kernels: they compute what PyTorch lines do, and compile for a GPU that is not there."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Sampling
from antiphon.engine.plan import Start
from antiphon.families.fish_speech.language_model import load_runner
from antiphon.families.fish_speech.sizes import CONFIGS, write_files
from antiphon.families.kit.mixed.prompt import FRAME
from antiphon.families.kit.random_checkpoint import configs_of
from tests.engine.drive import Drive, generate
from tests.families.fish_speech.random_checkpoint import write_weights
from tests.families.fish_speech.spoken import made_prompt
from tests.families.whole_checkpoints import Whole
from tests.kernels import why_not_here, with_kernels
from tests.nn.kernels.compiler import Compiler
from tests.nn.kernels.test_compilation import compiler

__all__ = ["compiler"]

_IDS = np.array([1, 2, 3, FRAME, FRAME, 4, 5])
_REFERENCE = np.arange(20).reshape(2, 10)
# Of repeated codes each is drawn anew: with so few likely ones that is among the first four.
_NARROW = Sampling(temperature=0.7, top_k=3, top_p=0.9)


@pytest.mark.gpu
@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "they run here")
@pytest.mark.parametrize("task", ["s2", "s1"])
def test_frames_are_those_of_pytorch_lines(
    made: Callable[[str], Path], task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = LoadContext(made(task), "cpu", "float32", 3)
    prompts = {
        0: made_prompt(_IDS, _REFERENCE, seed=1),
        2: made_prompt(np.arange(5), seed=2, sampling=_NARROW),
    }
    wanted = generate(
        load_runner(context, is_batched=True, max_positions=64), prompts, max_frames=4
    )
    context = with_kernels(context, monkeypatch)
    runner = load_runner(context, is_batched=True, max_positions=64)
    heard = generate(runner, prompts, 4)
    assert {slot: each.codes for slot, each in heard.items()} == {
        slot: each.codes for slot, each in wanted.items()
    }


@pytest.mark.slow  # it compiles
@pytest.mark.filterwarnings("ignore")  # Triton tells of changes to come
@pytest.mark.parametrize("task", ["s2", "s1"])
def test_a_step_of_published_widths_compiles(
    tmp_path: Path, task: str, request: pytest.FixtureRequest
) -> None:
    config = configs_of(CONFIGS, "tiny", task, f"{task}, published")["config.json"]
    if task == "s2":
        config["text_config"]["n_layer"] = config["audio_decoder_config"]["n_layer"] = 1
    else:
        config["n_layer"] = config["n_fast_layer"] = 1
    write_files(tmp_path, config)
    write_weights(tmp_path, Whole())
    context = LoadContext(tmp_path, "cpu", "bfloat16", 4)
    prompt = made_prompt(np.arange(20))
    compiled: Compiler = request.getfixturevalue("compiler")  # not before: it fakes torch.empty
    drive = Drive(load_runner(context, is_batched=True, max_positions=256))
    drive.step((0, 1), starts=[Start(0, prompt), Start(1, prompt)])
    drive.step((0, 1))
    assert {"_draw", "_noise", "_begin"} <= compiled.names
    assert not compiled.too_large()
