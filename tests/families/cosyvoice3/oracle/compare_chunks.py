"""Prints how our mel frames differ from those that the published code streams, in dB.

Arguments and PYTHONPATH are those of `record`. The published loop is done again here: a first
chunk that ends with 25 tokens of the recording and the speech, further ones that double up to 100,
each with all tokens before it, and a last one that sees everything.
"""

import math
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antiphon.families.cosyvoice3.checkpoint import flow_part
from antiphon.families.cosyvoice3.config import load_config
from antiphon.families.cosyvoice3.flow import MelFlow, Reference
from tests.families.cosyvoice3.oracle import cases
from tests.families.cosyvoice3.oracle.record import published_flow, replace_modules
from tests.families.cosyvoice3.random_checkpoint import make_checkpoint
from tests.families.cosyvoice3.speech import mel_of

NUM_TOKENS = 400
HOP, MAX_HOP, AHEAD = 25, 100, 3


def published_mel(
    flow: Any, tokens: Tensor, given: Reference, *, is_masked: bool, is_end: bool
) -> Tensor:
    lengths = [torch.tensor([len(each)]) for each in (tokens, given.tokens, given.mel)]
    made, _ = flow.inference(
        *(tokens[None], lengths[0], given.tokens[None], lengths[1], given.mel[None], lengths[2]),
        given.speaker[None],
        streaming=is_masked,
        finalize=is_end,
    )
    frames: Tensor = made[0].T
    return frames


def published_stream(flow: Any, tokens: Tensor, given: Reference) -> Tensor:
    made, start, hop = [], 0, HOP
    size = hop + math.ceil(len(given.tokens) / HOP) * HOP - len(given.tokens)
    while len(tokens) - start >= size + AHEAD:
        known = tokens[: start + size + AHEAD]
        made.append(published_mel(flow, known, given, is_masked=True, is_end=False)[2 * start :])
        start += size
        hop = size = min(MAX_HOP, 2 * hop)
    made.append(published_mel(flow, tokens, given, is_masked=False, is_end=True)[2 * start :])
    return torch.cat(made)


def own_mel(path: Path, tokens: Tensor, given: Reference, context_frames: int) -> Tensor:
    config = load_config(path).flow
    with flow_part(path, config).open(like=torch.empty(0)) as weights:
        flow = MelFlow.of(weights, config)
    flow = replace(flow, context_frames=context_frames)
    return mel_of(flow, tokens, given, HOP + AHEAD)


def decibels(one: Tensor, other: Tensor) -> float:
    return float(10 * ((other**2).mean() / ((one - other) ** 2).mean()).log10())


@torch.inference_mode()
def compare(path: Path, num_reference: int) -> None:
    random = np.random.default_rng(num_reference)
    tokens = torch.from_numpy(random.integers(0, 6561, NUM_TOKENS))
    given = Reference(
        torch.from_numpy(random.integers(0, 6561, num_reference)),
        torch.from_numpy(random.standard_normal((2 * num_reference, 80), np.float32)),
        torch.from_numpy(random.standard_normal(192, np.float32)),
    )
    flow = published_flow(path)
    streamed = published_stream(flow, tokens, given)
    masked, whole = (
        published_mel(flow, tokens, given, is_masked=each, is_end=True) for each in (True, False)
    )
    bounded, unbounded = (own_mel(path, tokens, given, each) for each in (200, 2 * NUM_TOKENS))
    rows = {
        "all context: ours and one masked pass of theirs": (unbounded, masked),
        "all context: ours and their stream": (unbounded, streamed),
        "four seconds of context: ours and their stream": (bounded, streamed),
        "their stream and their own whole": (streamed, whole),
    }
    sys.stdout.write(f"{num_reference} tokens of a recording, {NUM_TOKENS} of speech:\n")
    for title, pair in rows.items():
        sys.stdout.write(f"  {title}: {decibels(*pair):.1f} dB\n")


def main() -> None:
    checkout, torchaudio, whisper = sys.argv[1:]
    sys.path.insert(0, checkout)
    replace_modules(torchaudio, whisper)
    with TemporaryDirectory() as folder:
        make_checkpoint(Path(folder), seed=cases.CHECKPOINT_SEED)
        for num_reference in (22, 60, 122):
            compare(Path(folder), num_reference)


if __name__ == "__main__":
    main()
