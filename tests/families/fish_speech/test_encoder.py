"""Silence behind a recording."""

from collections.abc import Callable
from pathlib import Path

import torch

from tests.families.fish_speech.random_checkpoint import encoder_in

LENGTHS = (1, 2048, 10_241, 20_000)


def test_silence_behind_a_recording_changes_no_code(made: Callable[[str], Path]) -> None:
    encoder = encoder_in(made("s2"))
    samples = torch.zeros(len(LENGTHS), 20_480)
    generator = torch.Generator().manual_seed(0)
    for row, length in zip(samples, LENGTHS, strict=True):
        row[:length] = 0.2 * torch.randn(length, generator=generator)
    with torch.inference_mode():
        for length, row, codes in zip(LENGTHS, samples, encoder.encode_rows(samples), strict=True):
            alone = encoder.encode(row[:length])
            assert (codes[: len(alone)] == alone).all(dim=1).float().mean() > 0.9
