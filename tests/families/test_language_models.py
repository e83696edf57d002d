"""Frames of a language model depend on their own request alone, in every family."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.engine.model_runner.ar_model import Frames, Inputs
from antiphon.engine.model_runner.model_runner import ModelRunner
from tests.asking import step_asking_nothing
from tests.engine.drive import Generated, generate
from tests.engine.noted_rows import assert_same_rows, noted_rows, torch_threads
from tests.families.causal_lm import answers
from tests.families.cosyvoice3 import speech
from tests.families.fish_speech import spoken
from tests.families.glm_image import priors
from tests.families.mimo_audio import speaking
from tests.families.qwen3_tts import lm
from tests.families.voxcpm2 import speaking as voxcpm2
from tests.families.whole_checkpoints import maker_of

MODULES = {
    "causal_lm": answers,
    "cosyvoice3": speech,
    "fish_speech": spoken,
    "glm_image": priors,
    "mimo_audio": speaking,
    "qwen3_tts": lm,
    "voxcpm2": voxcpm2,
}
S1 = "fish_speech-s1"
MODELS = {name: module.LANGUAGE_MODEL for name, module in MODULES.items()}
MODELS[S1] = replace(spoken.LANGUAGE_MODEL, task="s1")
NAMES = [*MODULES, pytest.param(S1, marks=pytest.mark.slow)]  # its codes are in the parity tests
ENDING = [name for name in NAMES if name not in ("causal_lm", "glm_image")]  # to their limits
INT8 = [name for name in MODULES if MODELS[name].num_int8_scores]
NUM_FRAMES = 10


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the directory of a family's checkpoint; do not change it."""

    @cache
    def make(name: str) -> Path:
        path, task = tmp_path_factory.mktemp(name), MODELS[name].task
        maker_of(name.removesuffix("-s1"))(
            path, size="tiny", **({} if task is None else {"task": task})
        )
        return path

    return make


@contextmanager
def loaded(name: str, path: Path, **how: Any) -> Iterator[ModelRunner[Any]]:
    more = {"quantize": how.pop("quantize")} if "quantize" in how else {}
    with closing(MODELS[name].load(LoadContext(path, "cpu", "float32", 5, **more), **how)) as found:
        yield found


def outcomes(
    generated: dict[int, Generated], num_codes: int | None = None
) -> dict[int, tuple[list[list[int]], str | None]]:
    return {
        slot: ([frame[:num_codes] for frame in each.codes], each.end)
        for slot, each in generated.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_request_is_the_same_alone_in_a_batch_and_resumed(
    name: str, made: Callable[[str], Path]
) -> None:
    prompts = MODELS[name].prompts(made(name))
    with loaded(name, made(name)) as runner:
        together = generate(runner, prompts, NUM_FRAMES)
        for slot, prompt in prompts.items():
            whole, place = together[slot], (slot + 2) % 5
            assert len(whole.frames) > 1
            for count in (0, 1 + slot % (len(whole.frames) - 1)):
                before = {place: whole.frames[:count]}
                again = generate(runner, {place: prompt}, NUM_FRAMES, before=before)
                assert outcomes(again) == {place: outcomes(together)[slot]}
        reseeded = {slot: replace(each, seed=each.seed + 77) for slot, each in prompts.items()}
        assert outcomes(generate(runner, reseeded, NUM_FRAMES)) != outcomes(together)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_computed_together_is_the_same_and_resumes(
    name: str, made: Callable[[str], Path]
) -> None:
    num_codes = MODELS[name].num_batch_codes
    prompts = MODELS[name].prompts(made(name))
    with loaded(name, made(name)) as exact, loaded(name, made(name), is_batched=True) as batched:
        wanted = outcomes(generate(exact, prompts, NUM_FRAMES), num_codes)
        together = generate(batched, prompts, NUM_FRAMES)
        assert outcomes(together, num_codes) == wanted
        for slot, prompt in prompts.items():
            count = 1 + slot % (len(together[slot].frames) - 1)
            before = {4: together[slot].frames[:count]}  # read at once, not replayed
            again = generate(batched, {4: prompt}, NUM_FRAMES, before=before)
            assert outcomes(again, num_codes) == {4: wanted[slot]}


@pytest.mark.parametrize("is_batched", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_numbers_gone_bad_end_their_own_request_only(
    name: str, is_batched: bool, made: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    num_codes = MODELS[name].num_batch_codes if is_batched else None
    prompts = MODELS[name].prompts(made(name))
    with loaded(name, made(name), is_batched=is_batched) as runner:
        wanted = outcomes(generate(runner, prompts, 4), num_codes)
        sample = runner._model.sample

        def spoilt(hidden: Tensor, inputs: Inputs, sampling: Any) -> Frames:
            is_bad = (inputs.slots == 1) & (inputs.frames == 1)
            return sample(hidden.masked_fill(is_bad[:, None], torch.nan), inputs, sampling)

        monkeypatch.setattr(runner._model, "sample", spoilt)
        found = generate(runner, prompts, 4, faulty=(1,))
        assert (len(found[1].frames), found.pop(1).end) == (1, "error")
        assert outcomes(found, num_codes) == {slot: wanted[slot] for slot in found}
        monkeypatch.undo()
        assert outcomes(generate(runner, prompts, 4), num_codes) == wanted


@pytest.mark.parametrize(
    "name", sorted(MODELS.keys() - {"qwen3_tts"})
)  # projects text when it is read
def test_a_step_asks_nothing_of_the_device(name: str, made: Callable[[str], Path]) -> None:
    with loaded(name, made(name)) as runner:
        step_asking_nothing(runner._model)


@pytest.mark.parametrize("name", ENDING)
def test_an_end_is_ignored_or_put_off(
    name: str, made: Callable[[str], Path], tmp_path: Path
) -> None:
    path, make_ending = tmp_path / name, MODELS[name].make_ending
    assert make_ending is not None
    copytree(made(name), path)
    make_ending(path)
    drawn = MODELS[name].prompts(path)

    def ends_of(**more: Any) -> dict[int, Generated]:
        prompts = {
            slot: replace(each, sampling=replace(each.sampling, **more))
            for slot, each in drawn.items()
        }
        return generate(runner, prompts, 24)

    with loaded(name, path) as runner:
        usual = ends_of()
        assert {each.end for each in usual.values()} == {"stop"}
        endless = ends_of(ignore_eos=True)
        assert {each.end for each in endless.values()} == {None}
        least = max(len(each.frames) for each in usual.values()) + 1
        for slot, late in ends_of(min_frames=least).items():
            assert len(late.frames) >= least
            *codes, _ = late.codes  # the last frame of voxcpm2 says that it is the last
            assert codes == endless[slot].codes[: len(codes)]


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("name", INT8)
def test_rows_of_int8_are_the_same_together_and_one_by_one(
    name: str, num_threads: int, made: Callable[[str], Path]
) -> None:
    prompts = MODELS[name].prompts(made(name))
    num_scores = MODELS[name].num_int8_scores
    with torch_threads(num_threads), loaded(name, made(name), quantize="int8") as runner:
        with noted_rows(runner, num_scores=num_scores) as together:
            generate(runner, prompts, 8)
        with noted_rows(runner, num_scores=num_scores) as alone:
            for slot, prompt in prompts.items():
                generate(runner, {slot: prompt}, 8)
    assert_same_rows(together, alone)
