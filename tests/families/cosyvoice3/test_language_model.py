"""The language model says what the published one does, and draws without repeating itself."""

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.types import Sampling, SpeechRequest, Voice
from antiphon.engine.model_runner.ar_model import Frames, Inputs
from antiphon.families.cosyvoice3 import language_model
from antiphon.families.cosyvoice3.checkpoint import TEXT_PREFIX
from antiphon.families.cosyvoice3.config import load_config
from antiphon.families.cosyvoice3.language_model import CosyVoice3Runner, draw_nucleus, load_runner
from antiphon.families.cosyvoice3.prompt import CosyVoice3Prompter
from antiphon.nn.sampler import SamplingReach, SamplingRows, gumbel_noise
from tests.engine.copying import assert_copies_exactly
from tests.engine.drive import generate, tokens_of
from tests.families.cosyvoice3.oracle import cases
from tests.families.cosyvoice3.speech import GREEDY, prompt_of, write_rows
from tests.families.weight_edits import head_row, leaning_rows

TEXTS = (cases.TEXT_IDS, (3, 4), (50, 51, 52, 53, 54, 55, 56))


@pytest.fixture(scope="module")
def runner(base: Path) -> Iterator[CosyVoice3Runner]:
    with closing(load_runner(LoadContext(base, "cpu", max_slots=3), max_positions=256)) as made:
        yield made


def test_logits_are_those_of_the_published_model(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Tensor] = []

    class Watched(language_model.SpeechLM):
        def sample(self, hidden: Tensor, inputs: Inputs, sampling: SamplingReach) -> Frames:
            seen.append(self.logits(hidden)[0])
            return super().sample(hidden, inputs, sampling)

    monkeypatch.setattr("antiphon.families.cosyvoice3.language_model.SpeechLM", Watched)
    context = LoadContext(base, "cpu", "float32", 1)
    with closing(load_runner(context, max_positions=256)) as runner:
        for number in range(len(cases.SPEECH_IDS) + 1):
            before = {0: [np.array([each]) for each in cases.SPEECH_IDS[:number]]}
            prompts = {0: prompt_of(cases.TEXT_IDS, sampling=GREEDY)}
            generate(runner, prompts, number + 1, before=before, piece_positions=16)
    with np.load(Path(__file__).parent / "fixtures" / "parity.npz") as file:
        wanted = file["logits"]
    assert wanted.std() > 0.5
    found = torch.stack(seen)[:, :: cases.LOGITS_STRIDE]
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_speech_ends_by_any_special_id_but_not_too_early(runner: CosyVoice3Runner) -> None:
    free = Sampling(temperature=50.0, top_k=6761, top_p=1.0, repetition_penalty=1.0)
    hot = {
        slot: prompt_of(TEXTS[0], seed=slot, min_frames=12 * slot, sampling=free)
        for slot in range(3)
    }
    tokens = tokens_of(runner, hot, 200)
    assert all(len(each) >= 12 * slot for slot, each in tokens.items())
    assert all(len(each) < 200 for each in tokens.values())  # 3 % of ids end speech
    assert max(max(each, default=0) for each in tokens.values()) < 6561


def test_what_was_said_lately_is_not_said_at_once_again(runner: CosyVoice3Runner) -> None:
    one = Sampling(temperature=1e-4, top_k=1, top_p=0.1, repetition_penalty=1.0)
    tokens = tokens_of(runner, {0: prompt_of(TEXTS[1], sampling=one, min_frames=60)}, 60)[0]
    assert all(before != after for before, after in pairwise(tokens))


def test_the_nucleus_is_counted_among_all_tokens() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn((6, 200), generator=generator) * 2.5
    top_k, top_p = (
        torch.tensor([1, 25, 25, 200, 5, 25]),
        torch.tensor([0.8, 0.8, 0.1, 0.8, 1.0, 0.5]),
    )
    rows = SamplingRows(
        temperature=torch.ones(6),
        top_k=top_k,
        top_p=top_p,
        repetition_penalty=torch.ones(6),
        reach=SamplingReach(200, uses_top_p=True),
    )
    seen: list[set[int]] = [set() for _ in range(6)]
    seeds = torch.zeros(6, 2, dtype=torch.int64)
    for frame in range(1000):
        frames = torch.full((6,), frame)
        noise = gumbel_noise(seeds, frames, torch.zeros(1, dtype=torch.int64), 200)[:, 0]
        tokens, scores = draw_nucleus(logits, rows, noise)
        assert scores.isfinite().all()
        for each, token in zip(seen, tokens.tolist(), strict=True):
            each.add(token)
    for row in range(6):
        probabilities = logits[row].double().softmax(0)
        wanted: set[int] = set()
        total = 0.0
        for token in probabilities.argsort(descending=True).tolist():
            if total >= top_p[row] or len(wanted) >= top_k[row]:
                break
            wanted.add(token)
            total += float(probabilities[token])
        assert seen[row] <= wanted
        likely = {token for token in wanted if probabilities[token] > 0.01 * total}
        assert likely <= seen[row]


def test_greedy_rows_take_the_likeliest() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0], [5.0, 4.9, 4.8]])
    ones = torch.ones(2)
    reach = SamplingReach(3, uses_top_p=True)
    rows = SamplingRows(torch.zeros(2), torch.tensor([3, 3]), ones, ones, reach)
    tokens, scores = draw_nucleus(logits, rows, torch.full((2, 3), 7.0))
    assert tokens.tolist() == [1, 0]
    assert scores.tolist() == [3.0, 5.0]


def test_copies_of_what_is_before_the_text_change_nothing(
    base: Path, runner: CosyVoice3Runner
) -> None:
    prompter = CosyVoice3Prompter(LoadContext(base))
    voice = PreparedVoice(
        name="Ann",
        family="cosyvoice3",
        ref_text="So it is.",
        speaker_embedding=np.ones(192, np.float32),
        ref_codes=np.arange(20)[:, None],
        ref_features=np.zeros((40, 80), np.float32),
    )
    one, other = (
        prompter.build(
            SpeechRequest(text, sampling=Sampling(max_frames=3), options={"ref_audio": voice}),
            Voice(id="reference", name="Reference"),
            1,
        )
        for text in ("Good day.", "A second one.")
    )
    assert_copies_exactly(runner, one, other)


def test_a_token_that_is_always_likeliest_is_not_said_twice_in_a_row(
    base: Path, tmp_path: Path
) -> None:
    path = tmp_path / "stuck"
    copytree(base, path)
    config = load_config(path)
    head = {"llm_decoder.weight": {7: head_row(config.text)}}
    write_rows(path, {**leaning_rows(TEXT_PREFIX, config.text), **head})
    with closing(load_runner(LoadContext(path, "cpu", max_slots=1), max_positions=256)) as runner:
        tokens = tokens_of(runner, {0: prompt_of(TEXTS[1], min_frames=40)}, 40)[0]
    assert tokens[0] == 7, "it is the likeliest by far"
    assert 7 in tokens[1:]
    assert all((before, after) != (7, 7) for before, after in pairwise(tokens))
