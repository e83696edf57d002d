"""Prompts of ids, the tokens that a runner makes of them, and the audio that these become."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.plan import CodecChunk, Start
from antiphon.models.base import Prompt
from antiphon.models.cosyvoice3.conditioning import reference_arrays
from antiphon.models.cosyvoice3.decoder import CosyVoice3Decoder
from antiphon.models.cosyvoice3.flow import ChunkPass, MelFlow, Reference
from antiphon.models.cosyvoice3.request import CosyVoice3Prompt
from antiphon.models.cosyvoice3.runner import CosyVoice3Runner
from antiphon.types import Samples, Sampling
from tests.engine.drive import Drive

GROUP, AHEAD = 25, 6
TOKENS = np.random.default_rng(0).integers(0, 6561, 400)
START, TURN, FIRST_TEXT = 6561, 6563, 6761
DRAWN = Sampling(temperature=1.0, top_k=25, top_p=0.8, repetition_penalty=1.0)
GREEDY = Sampling(temperature=0.0, top_k=25, top_p=0.8, repetition_penalty=1.0)


def prompt_of(
    text: Sequence[int], *, sampling: Sampling = DRAWN, seed: int = 0, min_frames: int = 0
) -> Prompt:
    ids = (START, *(FIRST_TEXT + each for each in text), TURN)
    return Prompt(
        data=CosyVoice3Prompt(ids, min_frames),
        num_tokens=len(text),
        seed=seed,
        sampling=sampling,
        num_positions=len(ids) - 1,
        position_keys=ids[:-1],
    )


def tokens_of(
    runner: CosyVoice3Runner,
    prompts: Mapping[int, Prompt],
    max_frames: int,
    made: Sequence[int] = (),
) -> dict[int, list[int]]:
    """Make tokens by slot, together, after those that are ``made``, until all slots are done."""
    drive = Drive(runner, piece_positions=16)
    before: tuple[NDArray[np.int64], ...] = tuple(np.array([each]) for each in made)
    tokens = {slot: [*made] for slot in prompts}
    starts = tuple(Start(slot, each, before) for slot, each in prompts.items())
    waiting = set(prompts)
    while waiting:
        output = drive.step(sorted(waiting), starts=starts)
        starts = ()
        assert not output.faults
        for slot, frame in output.frames.items():
            tokens[slot].append(int(frame[0]))
        waiting -= output.stopped | output.lengths
        waiting -= {slot for slot in waiting if len(tokens[slot]) == max_frames}
    drive.step(releases=tuple(prompts))
    return tokens


def mel_of(flow: MelFlow, tokens: Tensor, reference: Reference, ahead: int) -> Tensor:
    """Return the mel frames of all tokens, ``ahead`` of them in the first pass."""
    config, rows = flow.config, flow.open(1)
    size, width = config.chunk_tokens, config.chunk_tokens + config.look_ahead_tokens
    first = torch.cat((reference.tokens, tokens[: ahead + config.look_ahead_tokens]))[None]
    made = [flow.begin(first, [reference], [0], rows, ahead=ahead)[0]]
    for start in range(ahead, len(tokens), size):
        window = tokens[start : start + width]
        num_pinned = len(reference.mel)
        each = ChunkPass(0, num_pinned + 2 * start, num_pinned, len(window))
        padded = F.pad(window, (0, width - len(window)))[None]
        nothing = torch.zeros(1, config.chunk_frames, config.num_mels)
        frames = flow.go_on(padded, nothing, torch.tensor([each.numbers]), rows, each)[0]
        made.append(frames[: 2 * min(size, len(window))])
    return torch.cat(made)


def voice(num_tokens: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Return the conditioning of a made-up recording."""
    random = np.random.default_rng(seed)
    return reference_arrays(
        random.integers(0, 6561, num_tokens),
        random.standard_normal((2 * num_tokens, 80), np.float32),
        random.standard_normal(192, np.float32),
    )


def store_of(tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a store in which all tokens have a place of their own."""
    return np.resize(tokens, (1, 1000))[:, :, None].repeat(2, axis=0)


def chunks_of(num_tokens: int, knows: Callable[[int], bool], slot: int = 0) -> list[CodecChunk]:
    """Plan chunks; ``knows`` tells whether the end is known when one begins."""
    starts = range(0, num_tokens, GROUP)
    return [
        CodecChunk(slot, start, GROUP, num_tokens if knows(start) else None) for start in starts
    ]


def audio_of(
    decoder: CosyVoice3Decoder,
    num_tokens: int,
    reference: dict[str, Any],
    *,
    is_early: bool = False,
) -> Samples:
    """Decode the first of `TOKENS`, whose end is known ``is_early`` or when it is looked at."""
    rows, store = decoder.open(1), store_of(TOKENS)
    decoder.reset(rows, 0, reference)
    chunks = chunks_of(num_tokens, lambda start: is_early or start + GROUP + AHEAD > num_tokens)
    return np.concatenate([decoder.launch([each], store, rows).result()[0] for each in chunks])
