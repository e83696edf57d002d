"""Drives a runner as the engine does, for many requests with lives of their own."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import Sampling
from antiphon.engine.plan import Append, Start, StepOutput
from antiphon.engine.runner import Runner
from antiphon.families.qwen3_tts.config import Qwen3TTSConfig
from antiphon.families.qwen3_tts.prompt_layout import (
    SPEAKER,
    MoreText,
    Qwen3TTSPrompt,
    Spoken,
    language_tag,
    lay_out,
    position_keys,
)
from tests.engine.drive import Drive

Codes = NDArray[np.int64]

DRAWN = Sampling(temperature=0.9, top_k=50, top_p=1.0, repetition_penalty=1.05, min_frames=2)
GREEDY = replace(DRAWN, temperature=0.0)


@dataclass(slots=True)
class Heard:
    """What came of one request."""

    frames: list[Codes] = field(default_factory=list)
    end: str | None = None

    @property
    def codes(self) -> list[list[int]]:
        return [frame.tolist() for frame in self.frames]


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


def hear(
    runner: Runner,
    prompts: Mapping[int, Prompt],
    *,
    max_frames: int = 25,
    piece_positions: int | None = None,
) -> dict[int, Heard]:
    """Start all prompts at once, in the slots that they are keyed by, and run each to its end."""
    drive = Drive(runner, piece_positions=piece_positions)
    heard = {slot: Heard() for slot in prompts}
    starts = tuple(Start(slot, prompt) for slot, prompt in prompts.items())
    for _ in range(max_frames):
        slots = tuple(slot for slot, each in heard.items() if each.end is None)
        if not slots:
            break
        take(heard, drive.step(slots, starts=starts), drive.faults)
        starts = ()
    drive.step(releases=tuple(prompts))
    return heard


def hear_late(
    runner: Runner, prompt: Prompt, pieces: Sequence[Piece], *, max_frames: int = 25
) -> Heard:
    """Give a request its text piece by piece, each as late as it can be."""
    drive, heard = Drive(runner), {0: Heard()}
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


def take(heard: Mapping[int, Heard], output: StepOutput, faults: Collection[int]) -> None:
    """Note a step's outcome."""
    for slot, frame in output.frames.items():
        heard[slot].frames.append(frame)
    for end, slots in (
        ("stop", output.stopped),
        ("length", output.lengths),
        ("error", faults),
    ):
        for slot in slots:
            assert heard[slot].end is None
            heard[slot].end = end
