"""On a GPU, a float32 checkpoint makes the CPU's codes; with `--deterministic`, bytes repeat."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon.config import ModelSettings, SpeechSettings
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import SpeechRequest
from antiphon.engine.plan import Start
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import Qwen3TTSRunner, load_runner
from antiphon.offline import collect
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.service import Speech
from tests.engine.drive import Drive, Generated, generate, take
from tests.families.qwen3_tts.lm import hear_late, made_prompt, mixed_prompts, opened

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

NUM_SLOTS = 8
MAX_FRAMES = 20
TEXTS = ("Hello there.", "你好。世界很大。", "One, two, three.", "Hi.", "A longer line of text.")


@pytest.fixture(scope="module")
def path(checkpoint: Callable[..., Path]) -> Path:
    return checkpoint("tiny", CheckpointTask.BASE)


def new_runner(path: Path, device: str, **more: bool) -> Qwen3TTSRunner:
    context = LoadContext(path, device, "float32", NUM_SLOTS)
    return load_runner(context, max_positions=256, **more)


@pytest.fixture(scope="module", params=[True, False], ids=["graphs", "eager"])
def gpu(request: pytest.FixtureRequest, path: Path) -> Iterator[Qwen3TTSRunner]:
    with closing(new_runner(path, "cuda", uses_graphs=request.param)) as runner:
        yield runner


@pytest.mark.parametrize("is_deterministic", [False, True])
def test_int8_weights_make_frames(path: Path, is_deterministic: bool) -> None:
    context = LoadContext(path, "cuda", "auto", NUM_SLOTS, is_deterministic=is_deterministic)
    context = replace(context, quantize="int8")
    with closing(load_runner(context, max_positions=256)) as runner:
        drive, config = Drive(runner), load_config(path)
        # In a pass of more than 64 rows:
        prompt = made_prompt(config, seed=1, num_tokens=100, streams_text=False)
        starts = tuple(Start(slot, prompt) for slot in range(3))
        drive.step(range(3), starts=starts)
        frames = drive.step(range(3)).frames
        assert all(np.array_equal(frames[slot], frames[0]) for slot in range(3))


@pytest.fixture(scope="module")
def prompts(path: Path) -> dict[int, Prompt]:
    """Prompts of every layout, and one with top-p."""
    config = load_config(path)
    drawn = made_prompt(config, seed=6, num_tokens=12)
    return mixed_prompts(config) | {
        6: replace(drawn, sampling=replace(drawn.sampling, top_p=0.8)),
    }


@pytest.fixture(scope="module")
def expected(path: Path, prompts: Mapping[int, Prompt]) -> dict[int, Generated]:
    """What the CPU makes of each prompt alone."""
    with closing(new_runner(path, "cpu")) as runner:
        return {
            slot: generate(runner, {slot: prompt}, MAX_FRAMES)[slot]
            for slot, prompt in prompts.items()
        }


def assert_as(expected: Mapping[int, Generated], heard: Mapping[int, Generated]) -> None:
    for slot, each in heard.items():
        assert each.frames
        assert each.codes == expected[slot].codes
        assert each.end == expected[slot].end


def test_codes_are_the_cpus_alone_and_together(
    gpu: Qwen3TTSRunner, prompts: dict[int, Prompt], expected: dict[int, Generated]
) -> None:
    assert_as(expected, generate(gpu, prompts, MAX_FRAMES))
    for slot, prompt in prompts.items():
        assert_as(expected, generate(gpu, {slot: prompt}, MAX_FRAMES))


@pytest.mark.parametrize("piece_positions", [7, 16])
def test_codes_are_the_cpus_for_prompts_read_in_pieces(
    gpu: Qwen3TTSRunner,
    prompts: dict[int, Prompt],
    expected: dict[int, Generated],
    piece_positions: int,
) -> None:
    heard = generate(gpu, prompts, MAX_FRAMES, piece_positions=piece_positions)
    assert_as(expected, heard)


def test_codes_are_the_cpus_for_late_text(
    gpu: Qwen3TTSRunner, prompts: dict[int, Prompt], expected: dict[int, Generated]
) -> None:
    for slot, cuts in ((3, [2, 5]), (2, [0, 9, 20])):
        late = hear_late(gpu, *opened(prompts[slot], cuts[-1] + 3, cuts), max_frames=MAX_FRAMES)
        assert late.codes == expected[slot].codes


def test_codes_are_the_cpus_after_a_preemption(
    gpu: Qwen3TTSRunner, prompts: dict[int, Prompt], expected: dict[int, Generated]
) -> None:
    for slot, prompt in prompts.items():
        made = expected[slot].frames[: len(expected[slot].frames) // 2]
        drive, heard = Drive(gpu, piece_positions=19), {5: Generated(list(made))}
        starts = [Start(5, prompt, tuple(made))]
        while heard[5].end is None and len(heard[5].frames) < MAX_FRAMES:
            take(heard, drive.step((5,), starts=starts), drive.faults)
            starts = []
        drive.step(releases=(5,))
        assert heard[5].codes == expected[slot].codes


def test_no_request_waits_for_a_compiler(path: Path) -> None:
    module = "tests.families.qwen3_tts.late_compilation"
    done = subprocess.run(
        [sys.executable, "-m", module, str(path)], stdout=subprocess.PIPE, check=True
    )
    assert json.loads(done.stdout) == []


TWO_GPUS = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs")


@pytest.mark.parametrize("device", ["cuda:0", pytest.param("cuda:1", marks=TWO_GPUS)])
async def test_audio_is_the_same_to_the_bit_streamed_whole_and_in_company(
    device: str, checkpoint: Callable[..., Path]
) -> None:
    """Through the engine, in bfloat16, with the codec of a GPU."""
    source = str(checkpoint("tiny", CheckpointTask.CUSTOM_VOICE))
    settings = ModelSettings(source=source, device=device, max_slots=8, deterministic=True)
    model = await SpeechModel.load(settings)
    speech = Speech({model.name: model}, SpeechSettings())
    try:
        live = [SpeechRequest(text, seed=seed) for seed, text in enumerate(TEXTS)]
        whole = [replace(request, is_live=False) for request in live]
        alone = [await collect(speech.stream(request)) for request in live]
        collected = [await collect(speech.stream(request)) for request in whole]
        together = await asyncio.gather(*(collect(speech.stream(each)) for each in live))
    finally:
        speech.close()
        await model.close()
    for one, other, among in zip(alone, collected, together, strict=True):
        assert len(one.samples)
        np.testing.assert_array_equal(one.samples, other.samples)
        np.testing.assert_array_equal(one.samples, among.samples)
