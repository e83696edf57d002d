"""The official package's patches and samples, recorded, are ours: in float32, of equal noise."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.codec.protocol import StreamingDecoder
from antiphon.contracts.prompt import Prompt
from antiphon.families.kit.mixed.prompt import FRAME
from antiphon.families.voxcpm2.language_model import VoxCPM2Runner
from antiphon.families.voxcpm2.prompt import VoxCPM2Prompter
from tests.engine.drive import generate
from tests.families.voxcpm2.oracle.cases import CASES, MAX_FRAMES, Case, continued, reference
from tests.families.voxcpm2.speaking import ask, decode, patches

RECORDED = Path(__file__).with_name("fixtures") / "official.npz"
TOLERANCE = 2e-4  # patches reach 5; found: 1.5e-5 on one thread, 5.1e-5 on two
AUDIO_TOLERANCE = 2e-4  # found: 2.2e-5


def prompt_of(prompter: VoxCPM2Prompter, case: Case) -> Prompt:
    options: dict[str, Any] = {
        "cfg_value": case.guidance,
        "inference_timesteps": case.num_steps,
    }
    if case.reference:
        options["ref_audio"] = reference()
    if case.prompt_text is not None:
        options |= {"prompt_audio": continued(), "prompt_text": case.prompt_text}
    return ask(prompter, case.text, case.seed, instructions=case.instructions, **options)


@pytest.fixture(scope="module")
def recorded() -> dict[str, NDArray[Any]]:
    with np.load(RECORDED) as arrays:
        return dict(arrays)


@pytest.mark.parametrize("name", CASES)
def test_patches_and_their_end_are_the_official_ones(
    name: str,
    recorded: dict[str, NDArray[Any]],
    prompter: VoxCPM2Prompter,
    runner: VoxCPM2Runner,
) -> None:
    wanted = recorded[f"{name}.patches"]
    spoken = generate(runner, {0: prompt_of(prompter, CASES[name])}, MAX_FRAMES + 1)[0]
    np.testing.assert_allclose(patches(spoken)[:MAX_FRAMES], wanted, atol=TOLERANCE)
    if len(wanted) < MAX_FRAMES:
        assert spoken.end == "stop"


@pytest.mark.parametrize("name", CASES)
def test_text_is_read_as_the_official_tokenizer_reads_it(
    name: str, recorded: dict[str, NDArray[Any]], prompter: VoxCPM2Prompter
) -> None:
    case, ids = CASES[name], prompt_of(prompter, CASES[name]).data.ids
    text = [int(each) for each in ids if each != FRAME]
    wanted = recorded[f"{name}.ids"].tolist()  # of the target alone
    assert text[-1] == 101
    if case.prompt_text is None:
        assert text[-1 - len(wanted) : -1] == wanted


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.has_audio])
def test_samples_are_the_official_ones(
    name: str,
    recorded: dict[str, NDArray[Any]],
    prompter: VoxCPM2Prompter,
    runner: VoxCPM2Runner,
    codec: StreamingDecoder,
) -> None:
    prompt, wanted = prompt_of(prompter, CASES[name]), recorded[f"{name}.audio"]
    frames = generate(runner, {0: prompt}, MAX_FRAMES)[0].frames
    samples = decode(codec, frames, context=prompt.context_frames)
    assert np.abs(wanted).max() > 0.1
    np.testing.assert_allclose(samples, wanted, atol=AUDIO_TOLERANCE)
