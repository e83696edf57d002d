"""Drives a runner as the engine does, for many requests with lives of their own."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import Sampling
from antiphon.engine.plan import Append, Start
from antiphon.engine.runner import Runner
from antiphon.families.qwen3_tts.config import Qwen3TTSConfig
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import load_runner
from antiphon.families.qwen3_tts.prompt_layout import (
    SPEAKER,
    MoreText,
    Qwen3TTSPrompt,
    Spoken,
    language_tag,
    lay_out,
    position_keys,
)
from tests.engine.drive import Drive, Generated, take
from tests.families.language_models import LanguageModel
from tests.families.weight_edits import write_rows

Codes = NDArray[np.int64]

DRAWN = Sampling(temperature=0.9, top_k=50, top_p=1.0, repetition_penalty=1.05, min_frames=2)
GREEDY = replace(DRAWN, temperature=0.0)


def made_prompt(
    config: Qwen3TTSConfig,
    *,
    seed: int,
    num_tokens: int = 8,
    streams_text: bool = True,
    num_reference_frames: int | None = None,
    sampling: Sampling = DRAWN,
    max_frames: int = 4000,
) -> Prompt:
    """Make a prompt of random ids; with reference frames it is one of a base checkpoint."""
    rng = np.random.default_rng(seed)
    body = tuple(rng.integers(0, 250, num_tokens).tolist())
    is_clone = num_reference_frames is not None
    said = tuple(rng.integers(0, 250, 4).tolist()) if num_reference_frames else ()
    prefix, text, num_common = lay_out(
        config,
        Spoken(role=(1, 2, 3), body=body, reference=said),
        tag=language_tag(config, ["english", None][seed % 2], None),
        speaker_id=SPEAKER if is_clone else None,
        streams_text=streams_text,
    )
    size = config.talker.transformer.hidden_size
    data = Qwen3TTSPrompt(
        prefix=prefix,
        text=text,
        max_frames=max_frames,
        speaker=rng.normal(size=size).astype(np.float32) if is_clone else None,
        reference=rng.integers(0, 2048, (num_reference_frames, config.talker.num_groups))
        if num_reference_frames
        else None,
        predictor_sampling=sampling,
    )
    return Prompt(
        data=data,
        num_tokens=num_tokens,
        seed=seed,
        sampling=sampling,
        num_positions=data.num_prefilled,
        position_keys=position_keys(config, data),
        num_common_positions=min(num_common, data.num_prefilled),
    )


def mixed_prompts(config: Qwen3TTSConfig) -> dict[int, Prompt]:
    """Return prompts of every layout, drawn and greedy, in slots out of order."""
    return {
        3: made_prompt(config, seed=1),
        0: made_prompt(config, seed=2, streams_text=False),
        4: made_prompt(config, seed=3, num_reference_frames=0, num_tokens=3),
        1: made_prompt(config, seed=4, num_reference_frames=20, sampling=GREEDY),
        2: made_prompt(config, seed=5, num_reference_frames=3, num_tokens=30),
    }


def opened(prompt: Prompt, num_late: int, cuts: Sequence[int]) -> tuple[Prompt, list[Piece]]:
    """Take the last ids of a prompt's text away; return them as pieces, parted at ``cuts``."""
    assert 0 < num_late <= len(prompt.data.text)
    early, late = prompt.data.text[:-num_late], prompt.data.text[-num_late:]
    data = replace(
        prompt.data,
        text=early,
        is_open=True,
    )
    pieces: list[Piece] = []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), num_late], strict=True):
        allowed = max(0, len(early) + end - data.num_reference_frames)
        is_last = len(pieces) == len(cuts)
        more = MoreText(late[start:end], prompt.data.max_frames)
        pieces.append(Piece(data=more, num_frames_allowed=None if is_last else allowed))
    prompt = replace(
        prompt, data=data, num_frames_allowed=data.num_frames_allowed, position_keys=()
    )
    return prompt, pieces


def hear_late(
    runner: Runner, prompt: Prompt, pieces: Sequence[Piece], *, max_frames: int = 25
) -> Generated:
    """Give a request its text piece by piece, each as late as it can be."""
    drive, heard = Drive(runner), {0: Generated()}
    waiting, allowed = list(pieces), prompt.num_frames_allowed
    starts: tuple[Start, ...] = (Start(0, prompt),)
    while heard[0].end is None and len(heard[0].frames) < max_frames:
        appends: list[Append] = []
        while allowed is not None and len(heard[0].frames) >= allowed:
            piece = waiting.pop(0)
            appends.append(Append(0, piece))
            allowed = piece.num_frames_allowed
        take(heard, drive.step((0,), starts=starts, appends=appends), drive.faults)
        starts = ()
    drive.step(releases=(0,))
    return heard[0]


def make_ending(path: Path) -> None:
    """Make the score of the end far from all others: above them after about half of all frames."""
    head, end = "talker.codec_head.weight", load_config(path).talker.tokens.eos
    row = load_file(path / "model.safetensors")[head][end]
    write_rows(path, {head: {end: row * np.float32(50.0)}})


LANGUAGE_MODEL = LanguageModel(
    load_runner, lambda path: mixed_prompts(load_config(path)), make_ending, task="base"
)
