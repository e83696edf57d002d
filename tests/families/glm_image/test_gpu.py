"""On a GPU, whose steps are CUDA graphs, the prior draws the codes that it draws on a CPU."""

from dataclasses import replace

import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.families.glm_image.prior import PriorRunner, load_prior
from antiphon.families.glm_image.prompt import GlmImagePrompter
from tests.engine.drive import tokens_of
from tests.families.glm_image.priors import ask, greedy
from tests.families.glm_image.random_checkpoint import make_prior

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
    pytest.mark.filterwarnings("default"),  # Triton tells of changes to come
]

OTHER = "Two dogs"


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> LoadContext:
    """The prior alone, so that diffusers need not be installed."""
    path = tmp_path_factory.mktemp("prior")
    make_prior(path)
    return LoadContext(path=path, device="cpu", dtype="float32", max_slots=3)


@pytest.fixture(scope="module")
def prompter(context: LoadContext) -> GlmImagePrompter:
    return GlmImagePrompter(context)


@pytest.fixture(scope="module")
def prior(context: LoadContext) -> PriorRunner:
    return load_prior(context)


def test_greedy_codes_alone_and_in_company_are_those_of_a_cpu(
    context: LoadContext, prompter: GlmImagePrompter, prior: PriorRunner
) -> None:
    on_gpu = load_prior(replace(context, device="cuda"))
    prompts = {0: greedy(prompter), 1: greedy(prompter, OTHER, 128, 64)}
    wanted = tokens_of(prior, prompts)
    assert tokens_of(on_gpu, prompts) == wanted
    for slot, prompt in prompts.items():
        assert tokens_of(on_gpu, {slot: prompt})[slot] == wanted[slot]


def test_codes_of_16_bits_fill_the_grid(context: LoadContext, prompter: GlmImagePrompter) -> None:
    on_gpu = load_prior(replace(context, device="cuda", dtype="bfloat16"))
    prompt = prompter.build(ask(), 5)
    codes = tokens_of(on_gpu, {0: prompt, 2: replace(prompt, seed=6)})
    assert codes[0] != codes[2]
    assert tokens_of(on_gpu, {1: prompt})[1] == tokens_of(on_gpu, {1: prompt})[1], "a seed repeats"
    for each in codes.values():
        assert len(each) == prompt.sampling.max_frames
        assert all(0 <= code < 64 for code in each)
