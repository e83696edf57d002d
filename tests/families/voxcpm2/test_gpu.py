"""On a GPU, in CUDA graphs and without them, a float32 checkpoint makes the CPU's patches."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon.contracts.prompt import Prompt
from antiphon.engine.plan import CodecChunk
from antiphon.families.voxcpm2.audio_vae_stages import load_codec
from antiphon.families.voxcpm2.language_model import VoxCPM2Runner, load_runner
from antiphon.families.voxcpm2.prompt import VoxCPM2Prompter
from antiphon.nn.precision import exact_float32
from tests.engine.drive import Generated, generate
from tests.families.voxcpm2.conftest import context_of
from tests.families.voxcpm2.oracle.cases import continued, reference
from tests.families.voxcpm2.speaking import ask, decode, patches

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

NUM_FRAMES = 9
TOLERANCE = 2e-2  # a value that is rounded to another level changes all that follows


@pytest.fixture(scope="module")
def prompts(prompter: VoxCPM2Prompter) -> dict[int, Prompt]:
    return {
        0: ask(prompter, "One.", 1, inference_timesteps=4),
        1: ask(prompter, "Another one, longer.", 2, ref_audio=reference()),
        3: ask(prompter, "A third.", 3, cfg_value=3.0),
        2: ask(prompter, "More", 4, prompt_audio=continued(), prompt_text="Said."),
    }


@pytest.fixture(scope="module")
def expected(
    endless_runner: Callable[..., VoxCPM2Runner], prompts: dict[int, Prompt]
) -> dict[int, Generated]:
    with closing(endless_runner()) as runner:
        return generate(runner, prompts, NUM_FRAMES)


@pytest.fixture(scope="module", params=[True, False], ids=["graphs", "eager"])
def gpu(request: pytest.FixtureRequest, endless: Path) -> Iterator[VoxCPM2Runner]:
    context = replace(context_of(endless), device="cuda")
    with (
        exact_float32(),
        closing(load_runner(context, max_positions=256, uses_graphs=request.param)) as runner,
    ):
        yield runner


def test_patches_are_those_of_the_cpu(
    gpu: VoxCPM2Runner, prompts: dict[int, Prompt], expected: dict[int, Generated]
) -> None:
    spoken = generate(gpu, prompts, NUM_FRAMES)
    for slot, each in expected.items():
        np.testing.assert_allclose(patches(spoken[slot])[:3], patches(each)[:3], atol=TOLERANCE)


def test_a_request_goes_on_after_its_slot_was_taken(
    gpu: VoxCPM2Runner, prompts: dict[int, Prompt]
) -> None:
    whole = generate(gpu, {1: prompts[1]}, NUM_FRAMES)[1]
    before = {2: whole.frames[:4]}
    rest = generate(gpu, {2: prompts[1]}, 6, before=before)[2]
    np.testing.assert_allclose(patches(rest)[:5], patches(whole)[:5], atol=TOLERANCE)


def test_samples_are_those_of_the_cpu_in_any_company(
    endless: Path, expected: dict[int, Generated]
) -> None:
    frames = {slot: np.stack(each.frames) for slot, each in expected.items()}
    wanted = {
        slot: decode(load_codec(context_of(endless)), [*each]) for slot, each in frames.items()
    }
    codec = load_codec(replace(context_of(endless), device="cuda"))
    state = codec.open(4)
    store = torch.zeros(5, NUM_FRAMES, frames[0].shape[1], dtype=torch.int64, device="cuda")
    for slot, each in frames.items():
        store[slot] = torch.from_numpy(each)
    chunks = [CodecChunk(slot, 0, 4 - slot) for slot in frames]
    first = codec.launch(chunks, store, state).result()
    chunks = [CodecChunk(slot, 4 - slot, NUM_FRAMES - 4 + slot) for slot in frames]
    rest = codec.launch(chunks, store, state).result()
    for slot, samples in wanted.items():
        made = np.concatenate((first[slot], rest[slot]))
        np.testing.assert_allclose(made, samples, atol=1e-4)
