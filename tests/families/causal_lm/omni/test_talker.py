"""The talker says what transformers' talker says, beside states that the thinker tells."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from antiphon.contracts.chat_types import ChatRequest, Message
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import PositionStates, Sampling
from antiphon.engine.plan import Append, Start
from antiphon.families.causal_lm.language_model import CausalLMRunner, load_runner
from antiphon.families.causal_lm.omni.prompt import MAX_CODES, TalkerPrompt
from antiphon.families.causal_lm.omni.talker import OmniTalker, TalkerRunner, load_talker
from antiphon.families.causal_lm.prompt import CausalLMPrompter
from tests.asking import step_asking_nothing
from tests.engine.drive import Drive
from tests.families.causal_lm.omni.answers import LIKELIEST, asked, said, told_of

torch = pytest.importorskip("torch", reason="needs the extra 'torch'")


@pytest.fixture(scope="module")
def prompter(context: LoadContext) -> CausalLMPrompter:
    return CausalLMPrompter(context)


@pytest.fixture(scope="module")
def thinker(context: LoadContext) -> CausalLMRunner:
    return load_runner(context)


@pytest.fixture(scope="module")
def talker(context: LoadContext) -> TalkerRunner:
    return load_talker(context)


@pytest.fixture(scope="module")
def told(thinker: CausalLMRunner, prompter: CausalLMPrompter) -> list[PositionStates]:
    return told_of(thinker, asked(prompter, "How are you?"))[1]


def expected(reference: Any, ids: Sequence[int], max_tokens: int) -> tuple[list[int], list[int]]:
    """Return tokens and codes of transformers, both the likeliest ones.

    Its talker adds the codes that begin speech if it is given a mask, which it always was when the
    checkpoint was published; later versions of its generation leave a mask of ones out.
    """
    codes: list[int] = []
    talker_forward = reference.talker.forward

    @functools.wraps(talker_forward)
    def masked(**given: Any) -> Any:
        if (embeds := given.get("inputs_embeds")) is not None:
            given["attention_mask"] = torch.ones(embeds.shape[:2], dtype=torch.int64)
        return talker_forward(**given)

    def heard(code: Any, **_: Any) -> Any:
        codes.extend(code[0].tolist())
        return torch.zeros(8)

    spoken, reference.token2wav.forward = reference.token2wav.forward, heard
    reference.talker.forward = masked
    try:
        sequence, _ = reference.generate(
            torch.tensor([ids]),
            speaker="Ethan",
            thinker_max_new_tokens=max_tokens,
            thinker_do_sample=False,
            thinker_repetition_penalty=1.0,
            talker_do_sample=False,
            talker_max_new_tokens=LIKELIEST.max_frames,
            talker_eos_token_id=[44, 46],
        )
    finally:
        reference.token2wav.forward, reference.talker.forward = spoken, talker_forward
    return sequence[0, len(ids) :].tolist(), codes


@pytest.mark.parametrize(
    "text", ["Hi", "How are you?", "Hello there", "Speak up, please: a longer question follows."]
)
def test_codes_are_those_of_transformers(
    reference: Any,
    thinker: CausalLMRunner,
    talker: TalkerRunner,
    prompter: CausalLMPrompter,
    text: str,
) -> None:
    prompt = asked(prompter, text)
    tokens, told = told_of(thinker, prompt)
    wanted_tokens, wanted_codes = expected(reference, prompt.data.ids, 20)
    assert tokens == [each for each in wanted_tokens if each not in (256, 258)]
    assert said(talker, told) == wanted_codes
    assert len(set(wanted_codes)) > 3
    starts = [each.start for each in told]
    assert starts == [0, *range(len(prompt.data.ids), len(prompt.data.ids) + len(told) - 1)]


def test_states_may_arrive_one_by_one(talker: TalkerRunner, told: list[PositionStates]) -> None:
    whole = said(talker, told)
    assert said(talker, told, states_ahead=0) == whole
    assert said(talker, told, states_ahead=3, slot=2) == whole


def test_speech_goes_on_after_codes_that_were_made(
    context: LoadContext, talker: TalkerRunner, told: list[PositionStates]
) -> None:
    drawn = Sampling(temperature=0.9, top_p=0.8, top_k=40, repetition_penalty=1.05, max_frames=40)
    batched = load_talker(context, is_batched=True)
    for runner, sampling in ((talker, drawn), (batched, LIKELIEST)):
        whole = said(runner, told, sampling)
        for num_made in (1, 17, 30):
            assert said(runner, told, sampling, made=whole[:num_made]) == whole


def test_what_is_not_spoken_tells_nothing(
    thinker: CausalLMRunner, prompter: CausalLMPrompter
) -> None:
    prompt = asked(prompter, "Hi")
    silent = replace(prompt, data=replace(prompt.data, is_spoken=False))
    with pytest.raises(KeyError):
        told_of(thinker, silent)
    assert np.isfinite(told_of(thinker, prompt)[1][0].states).all()


def test_states_of_a_prompt_are_told_beside_rows_of_others(
    context: LoadContext, prompter: CausalLMPrompter
) -> None:
    runner = load_runner(context, is_batched=True)
    asked_for = asked(prompter, "A question of more than one pass.", max_tokens=2)
    wanted = told_of(runner, asked_for)[1]
    other = asked(prompter, "Hi")
    drive = Drive(runner, piece_positions=16)
    drive.step([1], starts=(Start(1, other),))
    first = drive.step([1, 0], starts=(Start(0, asked_for),)).hidden_states
    assert first[1].start == len(other.data.ids), "of the answer under way"
    second = drive.step([0, 1]).hidden_states
    for told, expected in zip((first[0], second[0]), wanted, strict=True):
        assert told.start == expected.start
        np.testing.assert_allclose(told.states, expected.states, rtol=0, atol=1e-5)


def test_a_model_that_is_to_write_only_keeps_no_states(
    context: LoadContext, prompter: CausalLMPrompter
) -> None:
    with pytest.raises(KeyError):
        told_of(load_runner(replace(context, tasks=("chat",))), asked(prompter, "Hi"))


def test_steps_and_states_ask_nothing_of_the_device(
    talker: TalkerRunner, told: list[PositionStates]
) -> None:
    said(talker, told)  # ends with a slot's last state
    model = talker._model
    assert isinstance(model, OmniTalker)
    step_asking_nothing(model)


def test_a_slot_forgets_how_long_its_last_answer_was(
    talker: TalkerRunner, told: list[PositionStates]
) -> None:
    whole = said(talker, told)
    said(talker, told[:3])
    assert said(talker, told, states_ahead=0) == whole


def test_no_code_is_drawn_that_means_nothing(
    talker: TalkerRunner, told: list[PositionStates]
) -> None:
    model = talker._model
    assert isinstance(model, OmniTalker)
    assert model._is_forbidden.any()
    hot = Sampling(temperature=50.0, top_p=1.0, top_k=0, repetition_penalty=1.0, max_frames=40)
    drawn = [code for seed in range(8) for code in said(talker, told[:3], hot, seed=seed)]
    assert len(drawn) > 20
    assert not model._is_forbidden[torch.tensor(drawn)].any()


def test_speech_has_an_end_and_bad_numbers_have_one(
    talker: TalkerRunner, told: list[PositionStates]
) -> None:
    model = talker._model
    numbers, codes = np.array([MAX_CODES - 1, MAX_CODES]), np.zeros((2, 1), np.int64)
    assert model.observe([], codes, numbers).tolist() == [False, True]
    bad = Prompt(
        data=TalkerPrompt(np.full_like(told[0].states, np.nan), "Ethan"),
        num_tokens=1,
        seed=0,
        sampling=LIKELIEST,
        num_positions=len(told[0].states) + 1,
    )
    good = replace(bad, data=TalkerPrompt(told[0].states, "Ethan"))
    drive = Drive(talker)
    end = Piece(data=None, num_frames_allowed=None)
    starts, ends = (Start(0, bad), Start(1, good)), [Append(0, end), Append(1, end)]
    output = drive.step([0, 1], starts=starts, appends=ends)
    assert drive.faults == {0}
    assert [*output.frames] == [1]
    drive.step(releases=[0, 1])


def test_keys_and_values_of_what_is_spoken_are_nobody_elses(prompter: CausalLMPrompter) -> None:
    """What is told of a prompt must have been computed for it."""
    spoken = asked(prompter, "Hi")
    request = ChatRequest((Message("user", "Hi"),), max_tokens=20)
    assert len(spoken.position_keys) == 0
    assert len(prompter.build(request, 0).position_keys) == spoken.num_positions
