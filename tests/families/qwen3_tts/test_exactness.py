"""What the device holds of a request does not depend on its past, not even by rounding.

On a CPU that is so wherever requests are computed one by one, on a GPU with ``--deterministic``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.engine.plan import Append, Start
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import LanguageModel, Qwen3TTSRunner, load_runner
from antiphon.nn.cpu.cache_spans import CacheSpan
from tests.engine.drive import Drive
from tests.engine.noted_rows import assert_same_rows, noted_rows, torch_threads
from tests.families.qwen3_tts.lm import Codes, made_prompt, opened

NUM_FRAMES = 20
SLOT = 2


@pytest.fixture(scope="module")
def path(checkpoint: Callable[..., Path]) -> Path:
    return checkpoint("tiny", CheckpointTask.BASE)


@pytest.fixture(
    scope="module",
    params=[
        "cpu",
        "cpu int8",
        pytest.param(
            "cuda",
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
            ],
        ),
    ],
)
def runner(request: pytest.FixtureRequest, path: Path) -> Iterator[Qwen3TTSRunner]:
    is_gpu = request.param == "cuda"
    dtype = "bfloat16" if is_gpu else "float32"
    device, _, quantize = request.param.partition(" ")
    context = LoadContext(
        path, device, dtype, 4, is_deterministic=is_gpu, quantize=quantize or None
    )
    runner = load_runner(context, max_positions=256)
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def prompts(path: Path) -> list[Prompt]:
    config = load_config(path)
    return [
        made_prompt(config, seed=2, num_reference_frames=0, num_tokens=45, streams_text=False),
        made_prompt(config, seed=4, num_reference_frames=61),
    ]


def held(runner: Qwen3TTSRunner, num_positions: int) -> list[Tensor]:
    """Return all that the device holds of the request in a slot."""
    model, (cache,) = runner._model, runner._caches.stacks
    assert isinstance(model, LanguageModel)
    slots = model.slots
    span = CacheSpan.of(cache, SLOT, num_positions)
    kept = [span.read(cache, layer) for layer in range(len(cache.tensor))]
    states = (
        *(model.pending, model.has_occurred),
        *(slots.positions, slots.frames, slots.frame_store),
    )
    copies = [
        *(each.clone() for layer in kept for each in layer),
        *(state[SLOT].clone() for state in states),
    ]
    if slots.frames.is_cuda:
        torch.cuda.synchronize()  # copied on a stream of its own: what comes next waits for it
    return copies


def frames_after(
    runner: Qwen3TTSRunner,
    start: Start,
    num_frames: int,
    piece_positions: int | None = None,
    appends: Sequence[Append] = (),
) -> tuple[list[Codes], list[Tensor]]:
    drive, frames, starts = Drive(runner, piece_positions=piece_positions), [], [start]
    for _ in range(num_frames):
        frames.append(drive.step((SLOT,), starts=starts, appends=appends).frames[SLOT])
        starts, appends = [], ()
    state = held(runner, start.prompt.num_positions + len(start.frames) + num_frames)
    drive.step(releases=(SLOT,))
    return frames, state


def assert_same(one: Sequence[Tensor], other: Sequence[Tensor]) -> None:
    for left, right in zip(one, other, strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("num_blocks", [1, 2, 3])
def test_parts_of_whole_blocks_do_not_matter(
    runner: Qwen3TTSRunner, prompts: list[Prompt], num_blocks: int
) -> None:
    for prompt in prompts:
        _, whole = frames_after(runner, Start(SLOT, prompt), 2)
        _, parted = frames_after(runner, Start(SLOT, prompt), 2, piece_positions=16 * num_blocks)
        assert_same(parted, whole)


@pytest.mark.parametrize(
    "num_made", [7, 16, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 2, 19))]
)
def test_a_resumed_request_holds_what_it_held(
    runner: Qwen3TTSRunner, prompts: list[Prompt], num_made: int
) -> None:
    for prompt in prompts:
        frames, whole = frames_after(runner, Start(SLOT, prompt), NUM_FRAMES)
        start = Start(SLOT, prompt, tuple(frames[:num_made]))
        num_left = NUM_FRAMES - num_made
        again, resumed = frames_after(runner, start, num_left, piece_positions=32)
        assert [*map(list, again)] == [*map(list, frames[num_made:])]
        assert_same(resumed, whole)


def test_so_does_one_whose_text_came_late(runner: Qwen3TTSRunner, path: Path) -> None:
    prompt = made_prompt(load_config(path), seed=5, num_tokens=30)
    frames, whole = frames_after(runner, Start(SLOT, prompt), NUM_FRAMES)
    early, pieces = opened(prompt, 29, [3, 7])
    start = Start(SLOT, early, tuple(frames[:9]))
    appends = [Append(SLOT, piece) for piece in pieces]
    _, resumed = frames_after(runner, start, NUM_FRAMES - 9, appends=appends)
    assert_same(resumed, whole)


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("size", ["tiny", "tiny-0.6b"])
def test_rows_of_int8_are_the_same_together_and_one_by_one(
    checkpoint: Callable[..., Path], size: str, num_threads: int
) -> None:
    task = CheckpointTask.BASE if size == "tiny" else CheckpointTask.CUSTOM_VOICE
    context = LoadContext(checkpoint(size, task), "cpu", "float32", 5, quantize="int8")
    config, runners = load_config(context.checkpoint), []
    with torch_threads(num_threads):
        for how in (None, False):
            with closing(load_runner(context, max_positions=256, is_batched=how)) as runner:
                drive = Drive(runner)
                for slot in range(5):
                    prompt = made_prompt(config, seed=slot, num_tokens=4 + 5 * slot)
                    drive.step(starts=[Start(slot, prompt)])
                with noted_rows(runner) as rows:
                    for _ in range(4):
                        drive.step(range(5))
                runners.append(rows)
    assert_same_rows(*runners)
