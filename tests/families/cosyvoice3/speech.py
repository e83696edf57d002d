"""Prompts of ids, the tokens that a runner makes of them, and the audio that these become."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Samples, Sampling
from antiphon.engine.plan import CodecChunk
from antiphon.families.cosyvoice3.checkpoint import TEXT_PREFIX
from antiphon.families.cosyvoice3.config import load_config
from antiphon.families.cosyvoice3.decoder import CosyVoice3Decoder
from antiphon.families.cosyvoice3.flow import MelFlow, MelFlowRows, Reference
from antiphon.families.cosyvoice3.flow_context import ChunkPass, phase_of
from antiphon.families.cosyvoice3.language_model import load_runner
from antiphon.families.cosyvoice3.prompt import CosyVoice3Prompt
from antiphon.families.cosyvoice3.voices import reference_arrays
from tests.families.language_models import LanguageModel
from tests.families.weight_edits import Rows, head_row, leaning_rows

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
        data=CosyVoice3Prompt(np.array(ids, np.int64)),
        num_tokens=len(text),
        seed=seed,
        sampling=sampling.with_min_frames(min_frames),
        num_positions=len(ids) - 1,
        position_keys=ids[:-1],
    )


def mel_of(flow: MelFlow, tokens: Tensor, reference: Reference, ahead: int) -> Tensor:
    """Return the mel frames of all tokens, ``ahead`` of them in the first pass."""
    rows, size = flow.open(1), flow.config.chunk_tokens
    made = [first_mel(flow, tokens, reference, rows, ahead)[2 * len(reference.tokens) :]]
    for start in range(ahead, len(tokens), size):
        made.append(pass_mel(flow, tokens, reference, rows, (start, size, ahead)))
    return torch.cat(made)


def first_mel(
    flow: MelFlow, tokens: Tensor, reference: Reference, rows: MelFlowRows, ahead: int
) -> Tensor:
    """Return the mel frames of the recording and of ``ahead`` tokens, made in one pass."""
    flow.introduce(reference, 0, rows)
    num_reference = len(reference.tokens)
    return pass_mel(flow, tokens, reference, rows, (-num_reference, num_reference + ahead, ahead))


def pass_mel(
    flow: MelFlow,
    tokens: Tensor,
    reference: Reference,
    rows: MelFlowRows,
    place: tuple[int, int, int],
) -> Tensor:
    """Return the mel frames of a pass of the first row.

    ``place``: number of the first token, counted from the speech's begin, tokens of the pass, and
    those of speech in the first chunk with speech.
    """
    start, size, ahead = place
    width, num_reference = size + flow.config.look_ahead_tokens, len(reference.tokens)
    num_none = max(0, -start - num_reference)
    first = start + num_none + num_reference
    window = torch.cat((reference.tokens, tokens))[first:][: width - num_none]
    phase = phase_of(2 * num_reference, ahead, flow.config)
    numbers = (2 * (num_reference + start), 2 * num_reference, num_none + len(window), phase)
    each, missing = ChunkPass(0, *numbers), width - num_none - len(window)
    padded = F.pad(window, (num_none, missing))[None]
    mel = reference.mel[2 * first :][: 2 * (size - num_none)]
    mel = F.pad(mel, (0, 0, 2 * num_none, 2 * (size - num_none) - len(mel)))[None]
    frames = flow.go_on(padded, mel, torch.tensor([each]).to(tokens.device), rows, each)[0]
    return frames[2 * num_none : 2 * min(size, num_none + len(window))]


def voice(num_tokens: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Return the conditioning of a made-up recording."""
    random = np.random.default_rng(seed)
    return reference_arrays(
        random.integers(0, 6561, num_tokens),
        random.standard_normal((2 * num_tokens, 80), np.float32),
        random.standard_normal(192, np.float32),
    )


def store_of(tokens: NDArray[np.int64]) -> NDArray[np.int64]:
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


def write_rows(path: Path, rows: Rows) -> None:
    """Overwrite rows of the language model's weights."""
    file = path / "llm.pt"
    tensors = torch.load(file, weights_only=True)
    for name, values in rows.items():
        for row, value in values.items():
            tensors[name][row] = torch.from_numpy(value).view_as(tensors[name][row])
    torch.save(tensors, file)


def make_ending(path: Path) -> None:
    """Make the first and the last of the ids that end speech the likeliest."""
    config = load_config(path)
    head = {config.num_tokens + end: head_row(config.text) for end in (0, 199)}
    write_rows(path, {**leaning_rows(TEXT_PREFIX, config.text), "llm_decoder.weight": head})


def _prompts(path: Path) -> dict[int, Prompt]:
    samplings = (DRAWN, GREEDY, replace(DRAWN, top_p=0.5, top_k=7))
    return {
        slot: prompt_of([5 + slot, 7, 2 * slot], sampling=sampling, seed=slot)
        for slot, sampling in enumerate(samplings)
    }


LANGUAGE_MODEL = LanguageModel(load_runner, _prompts, make_ending, num_int8_scores=1)
