"""The prior in the engine against transformers, and what the engine promises beyond it."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from antiphon.families.glm_image.config import PRIOR_DIRECTORY, PROCESSOR_DIRECTORY
from antiphon.families.glm_image.prior import PriorRunner
from antiphon.families.glm_image.prompt import GlmImagePrompter
from tests.engine.drive import tokens_of
from tests.families.glm_image.priors import TEXT, ask, data_of, greedy

OTHER = "Two dogs"
WITHOUT_DIFFUSERS = """
import json, sys
from pathlib import Path
sys.modules["diffusers"] = None
from antiphon.contracts.family import LoadContext
from antiphon.families.glm_image.prior import load_prior
from antiphon.families.glm_image.prompt import GlmImagePrompter
from tests.engine.drive import tokens_of
from tests.families.glm_image.priors import greedy
from tests.families.glm_image.random_checkpoint import make_prior
make_prior(Path(sys.argv[1]))
context = LoadContext(Path(sys.argv[1]), device="cpu", dtype="float32", max_slots=1)
print(json.dumps(tokens_of(load_prior(context), {0: greedy(GlmImagePrompter(context))})[0]))
"""


@pytest.fixture(scope="module")
def official(checkpoint: Path) -> Any:
    from transformers import GlmImageForConditionalGeneration

    return GlmImageForConditionalGeneration.from_pretrained(checkpoint / PRIOR_DIRECTORY)


def official_inputs(checkpoint: Path, text: str, width: int, height: int) -> Any:
    """Return what the official pipeline gives its prior."""
    from transformers import GlmImageProcessor

    processor: Any = GlmImageProcessor.from_pretrained(checkpoint / PROCESSOR_DIRECTORY)
    messages = [[{"role": "user", "content": [{"type": "text", "text": text}]}]]
    return processor.apply_chat_template(
        messages,
        tokenize=True,
        return_dict=True,
        processor_kwargs={"target_h": height, "target_w": width, "return_tensors": "pt"},
    )


@pytest.mark.parametrize(("width", "height"), [(64, 96), (128, 64)])
def test_it_reads_what_the_official_pipeline_reads(
    checkpoint: Path, official: Any, prompter: GlmImagePrompter, width: int, height: int
) -> None:
    prior = data_of(greedy(prompter, TEXT, width, height)).prior
    inputs = official_inputs(checkpoint, TEXT, width, height)
    assert tuple(inputs["input_ids"][0].tolist()) == prior.ids
    read, _ = official.model.get_rope_index(inputs["input_ids"], inputs["image_grid_thw"])
    # The official class keeps the positions of codes to come, and one of the end, on itself.
    to_come = official.model._cached_decode_position_ids[0, :, :-1]
    wanted = torch.cat((read[:, 0], to_come), dim=1).T.numpy()
    np.testing.assert_array_equal(prior.positions, wanted)


def test_each_code_is_the_one_that_transformers_finds_likeliest(
    official: Any, prompter: GlmImagePrompter, prior: PriorRunner
) -> None:
    prompt = greedy(prompter)
    read = data_of(prompt).prior
    codes = tokens_of(prior, {0: prompt})[0]
    assert len(set(codes)) > 10, "there is not much to compare"
    positions = torch.from_numpy(read.positions).T[:, None]
    with torch.inference_mode():
        logits = official(
            input_ids=torch.tensor([[*read.ids, *codes]]), position_ids=positions
        ).logits[0, :, :64]
    assert logits[len(read.ids) - 1 : -1].argmax(dim=-1).tolist() == codes


@pytest.mark.slow  # transformers generates 250 codes one by one
def test_greedy_codes_are_those_that_transformers_generates(
    checkpoint: Path, official: Any, prompter: GlmImagePrompter, prior: PriorRunner
) -> None:
    prompts = {0: greedy(prompter), 1: greedy(prompter, OTHER, 128, 64)}
    codes = tokens_of(prior, prompts)
    for slot, (text, width, height) in enumerate([(TEXT, 64, 96), (OTHER, 128, 64)]):
        inputs = official_inputs(checkpoint, text, width, height)
        num_codes = len(codes[slot])
        made = official.generate(**inputs, max_new_tokens=num_codes, do_sample=False)
        assert made[0, -num_codes:].tolist() == codes[slot]


@pytest.mark.slow  # a process that imports all anew
def test_it_is_tested_where_diffusers_is_not_installed(
    prompter: GlmImagePrompter, prior: PriorRunner, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", WITHOUT_DIFFUSERS, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == tokens_of(prior, {0: greedy(prompter)})[0]


def test_the_grid_is_full_of_codes_whatever_is_drawn(
    prompter: GlmImagePrompter, prior: PriorRunner
) -> None:
    wild = {"prior_temperature": 100.0, "prior_top_k": 0, "prior_top_p": 1.0}
    prompt = prompter.build(ask(options=wild), 1)
    codes = tokens_of(prior, {0: prompt, 1: replace(prompt, seed=2)})
    assert codes[0] != codes[1]
    for each in codes.values():
        assert len(each) == 19 * 13 + 3 * 2
        assert len(set(each)) > 40
        assert all(0 <= code < 64 for code in each)
    image = data_of(prompt).prior.image_codes(np.array(codes[0]))
    assert image.shape == (3, 2)
    assert image.ravel().tolist() == codes[0][-6:]
