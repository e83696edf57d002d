"""Measures on held-out utterances: losses, accuracies, ends and lengths of generated speech."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from antiphon_training.language_model.batches import Batcher
from antiphon_training.language_model.checkpoint import SpecialIds
from antiphon_training.language_model.corpus import Ints
from antiphon_training.language_model.generate import generate
from antiphon_training.language_model.losses import losses_of
from antiphon_training.language_model.model import LanguageModel

_MOST_UTTERANCES = 256
_ROWS = 32


def held_out_measures(
    model: LanguageModel, batcher: Batcher, ids: SpecialIds, codes: Tensor
) -> dict[str, Any]:
    """Return losses of utterances, and how speech generated for some of them ends.

    Args:
        model: model on the device of the codes.
        batcher: batcher of the corpus.
        ids: ids of prompts.
        codes: codes of the corpus.
    """
    chosen = np.arange(len(batcher.num_frames))[:_MOST_UTTERANCES]
    measures: dict[str, Any] = {}
    for name, is_whole in (("whole", True), ("late", False)):
        measures |= {
            f"{name}_{key}": value
            for key, value in _losses(model, batcher, ids, codes, chosen, is_whole).items()
        }
        measures |= {
            f"{name}_{key}": value
            for key, value in _ends(model, batcher, ids, chosen[:_ROWS], is_whole).items()
        }
    return measures


@torch.inference_mode()
def _losses(
    model: LanguageModel,
    batcher: Batcher,
    ids: SpecialIds,
    codes: Tensor,
    chosen: Ints,
    is_whole: bool,
) -> dict[str, Any]:
    total: dict[str, float] = {}
    later = torch.zeros(model.sizes.num_later_groups)
    starts = range(0, len(chosen), _ROWS)
    for start in starts:
        numbers = chosen[start : start + _ROWS]
        flags = np.full(len(numbers), is_whole), np.arange(len(numbers)) % 2 == 0
        batch = batcher.batch(numbers, is_whole=flags[0], is_tagged=flags[1])
        found = losses_of(model, batch.on(codes.device), codes, ids.codec_eos)
        later += found.later_accuracy.cpu()
        values = {
            "first": found.first,
            "later": found.later.mean(),
            "first_accuracy": found.first_accuracy,
            "end_accuracy": found.end_accuracy,
        }
        for name, value in values.items():
            total[name] = total.get(name, 0.0) + value.item() / len(starts)
    accuracies = [round(value, 3) for value in (later / len(starts)).tolist()]
    rounded = {name: round(value, 4) for name, value in total.items()}
    return rounded | {"later_accuracies": accuracies}


def _ends(
    model: LanguageModel, batcher: Batcher, ids: SpecialIds, numbers: Ints, is_whole: bool
) -> dict[str, Any]:
    """Return the share of utterances that end, and their length relative to the true one."""
    flags = np.full(len(numbers), is_whole), np.ones(len(numbers), np.bool_)
    utterances = batcher.utterances(numbers, is_whole=flags[0], is_tagged=flags[1])
    true = batcher.num_frames[numbers]
    generated = generate(model, ids, utterances, max_frames=int(true.max() * 1.5) + 8)
    ratios = [
        len(codes) / length
        for codes, length in zip(generated, true.tolist(), strict=True)
        if codes is not None
    ]
    ended = {"ended": round(len(ratios) / len(numbers), 4)}
    if not ratios:
        return ended
    low, middle, high = (round(float(each), 3) for each in np.percentile(ratios, (5, 50, 95)))
    return ended | {"length_p5": low, "length_p50": middle, "length_p95": high}
