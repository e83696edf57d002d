"""Generation without a cache, for measurements during training.

The engine generates for listeners; this needs nothing but PyTorch.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from antiphon_training.language_model.checkpoint import SpecialIds
from antiphon_training.language_model.layout import Utterances, lay_out
from antiphon_training.language_model.model import NUM_GROUPS, Inputs, LanguageModel

_MIN_FRAMES = 2
"""The official code forbids the end of speech before."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Sampling of both models; a temperature of 0 takes the likeliest codes."""

    temperature: float = 0.8
    top_k: int = 50


@torch.inference_mode()
def generate(
    model: LanguageModel,
    ids: SpecialIds,
    batch: Utterances,
    *,
    max_frames: int,
    drawing: Drawing | None = None,
) -> list[Tensor | None]:
    """Return the codes of each utterance, ``[frames, groups]``; ``None`` where no end was drawn."""
    drawing = drawing or Drawing()
    device = model.talker.codec_head.weight.device
    num_rows = len(batch.speakers)
    frames = torch.zeros(num_rows, 0, NUM_GROUPS, dtype=torch.int64, device=device)
    ends = torch.full((num_rows,), max_frames, device=device)
    for number in range(max_frames):
        rows = lay_out(ids, batch, np.full(num_rows, number))
        arrays = (rows.text, rows.codec, rows.frame_places, rows.last_places)
        text, codec, frame_places, last_places = (torch.from_numpy(a).to(device) for a in arrays)
        inputs = Inputs(text, codec, frame_places, frames.flatten(0, 1))
        states = model.hidden(inputs)[last_places]
        logits = model.first_logits(states).float()
        end = logits[:, ids.codec_eos].clone()
        logits[:, model.sizes.codec_vocab_size - 1024 :] = -torch.inf
        if number >= _MIN_FRAMES:
            logits[:, ids.codec_eos] = end
        drawn = _draw(logits, drawing)
        ends = torch.where((drawn == ids.codec_eos) & (ends > number), number, ends)
        if number % 8 == 0 and bool((ends <= number).all()):
            break
        frames = torch.cat((frames, draw_frames(model, states, drawn, drawing)[:, None]), 1)
    return [
        frames[row, :end].cpu() if end < max_frames else None
        for row, end in enumerate(ends.tolist())
    ]


def draw_frames(model: LanguageModel, states: Tensor, first: Tensor, drawing: Drawing) -> Tensor:
    """Return whole frames, ``[rows, groups]``, after their first codes.

    Args:
        model: model of the states.
        states: talker states that group 0 was drawn from, ``[rows, hidden_size]``.
        first: codes of group 0, int64 ``[rows]``.
        drawing: sampling of the other groups.
    """
    codes = first.clamp(max=model.sizes.codebook_size - 1)[:, None]
    for group in range(1, NUM_GROUPS):
        final = model.later_states(states, codes)[:, -1]
        logits = model.talker.code_predictor.lm_head[group - 1](final)
        codes = torch.cat((codes, _draw(logits.float(), drawing)[:, None]), 1)
    return codes


def _draw(logits: Tensor, drawing: Drawing) -> Tensor:
    if drawing.temperature == 0:
        return logits.argmax(-1)
    scores = logits / drawing.temperature
    top = scores.topk(min(drawing.top_k, scores.shape[-1]), -1)
    picked = torch.multinomial(top.values.softmax(-1), 1)
    return top.indices.gather(-1, picked)[:, 0]
