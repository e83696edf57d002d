"""How fast models write: known times give known figures, and every answer has its tokens."""

import asyncio

import pytest

from antiphon.config import ModelSettings
from antiphon.contracts.types import Sampling
from antiphon.families.measured import measured_family
from antiphon_bench.chat import AnswerTimes, ChatLoad, run_chat, summarize_chat
from antiphon_bench.random_model import random_checkpoint


def test_known_times_give_known_figures() -> None:
    early = AnswerTimes(30, 0.0, [1.0, *(2.0 + step / 10 for step in range(11))], num_restarts=1)
    late = AnswerTimes(40, 0.0, [2.0 + step / 10 for step in range(13)])
    result = summarize_chat([early, late])
    assert (result.concurrency, result.num_tokens, result.num_prompt_tokens) == (2, 25, 40)
    assert result.num_restarts == 1
    assert result.step_ms == pytest.approx(100), "from 2 to 3 s both have a token in each tenth"
    assert result.tokens_per_s == pytest.approx(25 / 3.2)
    assert result.first_token_ms.p50 == pytest.approx(1500)
    assert result.token_gap_ms is not None
    assert result.token_gap_ms.max == pytest.approx(1000)


def test_answers_that_hardly_overlap_are_measured_from_beginning_to_end() -> None:
    times = [AnswerTimes(1, 0.0, [1.0, 2.0]), AnswerTimes(1, 0.0, [3.0, 4.0])]
    assert summarize_chat(times).step_ms == pytest.approx(2000)


def test_answers_that_end_too_early_are_begun_again_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "antiphon.families.toy.chat.answer_limits",
        lambda request, *_: Sampling(max_frames=request.max_tokens),
    )
    loads = [ChatLoad(1, 100, "Ah"), ChatLoad(3, 100, "Ah")]
    seen: list[int] = []
    settings = ModelSettings(source="toy", max_slots=3)
    report = asyncio.run(run_chat(settings, loads, lambda result: seen.append(result.num_tokens)))
    assert seen == [100, 300]
    first, second = report["results"]
    assert first["num_restarts"] > 0
    assert second["num_restarts"] == 3 * first["num_restarts"]
    assert second["host_ms"]["launch"]["num_steps"] >= 100
    assert (report["kind"], report["bound"], first["bound_share"]) == ("chat", None, None)
    assert report["sampling"]["temperature"] == 1.0


@pytest.mark.slow  # checkpoints are made and measured
@pytest.mark.parametrize("task", ["thinker", "qwen3"])
def test_random_weights_never_end_an_answer(task: str) -> None:
    usual, _ = measured_family(None, "chat")
    made = random_checkpoint("tiny", task, of_family=usual.name)
    with made as path:
        settings = ModelSettings(source=str(path), device="cpu", max_slots=4)
        report = asyncio.run(run_chat(settings, [ChatLoad(4, 200)]))
    (result,) = report["results"]
    # One of 264 tokens ends an answer: of 800 some would be that one.
    assert (result["num_tokens"], result["num_restarts"]) == (800, 0)
    assert report["sampling"]["top_k"] == 20
