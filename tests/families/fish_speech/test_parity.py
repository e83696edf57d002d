"""The same codes and the same audio as the official code, on checkpoints of random weights.

What that makes was recorded by ``oracle/record.py``; all of it is numbers.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Sampling
from antiphon.families.fish_speech.config import Layout, load_config
from antiphon.families.fish_speech.language_model import load_runner
from antiphon.families.fish_speech.prompt import Imitated, PromptLayout
from antiphon.families.fish_speech.tokenizer import load_tokenizer
from antiphon.families.kit.mixed.prompt import FRAME
from tests.engine.drive import generate
from tests.families.fish_speech.oracle import cases
from tests.families.fish_speech.random_checkpoint import decoder_in, encoder_in
from tests.families.fish_speech.spoken import made_prompt

LIKE = torch.empty(0)


@cache
def recorded() -> Mapping[str, NDArray[Any]]:
    with np.load(cases.FIXTURE) as file:
        return dict(file)


@pytest.mark.parametrize("case", cases.SPOKEN, ids=lambda each: each.name)
def test_prompts_are_read_and_frames_said_as_officially(
    case: cases.Spoken, made: Callable[[str], Path]
) -> None:
    path = made(case.task)
    config, codes = load_config(path), case.reference
    layout = PromptLayout(config.layout, load_tokenizer(path).encode, config.tokens)
    ids, _ = layout.lay_out(case.text, None if codes is None else Imitated(case.ref_text, codes))
    official = recorded()[f"{case.name}.ids"]
    is_frame = ids == FRAME
    assert ids[~is_frame].tolist() == official[0, ~is_frame].tolist()
    assert is_frame.sum() == case.num_reference
    if codes is not None:
        assert official[1:, is_frame].T.tolist() == codes.tolist()
        assert (
            official[0, is_frame].tolist() == (codes[:, 0] + config.tokens.first_semantic).tolist()
        )
    sampling = Sampling(temperature=case.temperature, top_k=case.top_k, top_p=case.top_p)
    runner = load_runner(LoadContext(path=path, device="cpu", max_slots=2), max_positions=512)
    prompt = made_prompt(ids, codes, seed=case.seed, sampling=sampling)
    heard = generate(runner, {0: prompt}, case.num_frames)[0]
    frames = recorded()[f"{case.name}.frames"].tolist()
    if frames[-1][0] == config.tokens.num_semantic:
        frames.pop()  # the end, of which no frame is made
        assert heard.end == "stop"
    assert len(frames) >= 12, "too little to see what avoids repetitions"
    assert heard.codes == frames


def test_codes_become_the_official_audio(made: Callable[[str], Path]) -> None:
    decoder = decoder_in(made("s2"))
    wave = decoder.decode_whole(torch.from_numpy(cases.codes().T)[None])[0].numpy()
    assert len(wave) == cases.NUM_CODEC_FRAMES * 2048
    official = recorded()["codec.wave"]
    assert np.abs(official).max() > 0.3
    np.testing.assert_allclose(wave[:: cases.WAVE_STEP], official, atol=2e-5)


def test_a_recording_becomes_the_official_codes(made: Callable[[str], Path]) -> None:
    encoder = encoder_in(made("s2"))
    codes = encoder.encode(torch.from_numpy(cases.recording())).numpy()
    official = recorded()["codec.encoded"]
    assert codes.shape == official.shape
    assert len(np.unique(official[:, 0])) > 5
    # A tie that rounding decides changes a code, and those after it in its frame.
    assert (codes == official).all(axis=1).mean() > 0.97


def test_text_is_cut_as_by_the_vocabulary_of_s1(tmp_path: Path) -> None:
    import base64

    lines = (f"{base64.b64encode(each).decode()} {rank}" for each, rank in cases.ranks().items())
    (tmp_path / "tokenizer.tiktoken").write_text("\n".join(lines))
    encode = load_tokenizer(tmp_path).encode
    assert [id_ for text in cases.TEXTS for id_ in (*encode(text), -1)] == recorded()[
        "ranks.ids"
    ].tolist()


def test_there_is_a_case_for_each_layout(made: Callable[[str], Path]) -> None:
    layouts = {load_config(made(case.task)).layout for case in cases.SPOKEN}
    assert layouts == set(Layout)
