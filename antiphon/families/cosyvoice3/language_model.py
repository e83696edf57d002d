"""The Qwen2 language model from text to speech tokens; a frame is one token.

Its joint embedding holds speech tokens first, then structural ids, then text.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias, Unpack

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.engine.model_runner.ar_model import Codes, Frames, Inputs, SlotStart
from antiphon.engine.model_runner.model_runner import ModelRunner
from antiphon.engine.model_runner.token_model import TokenModel
from antiphon.families.cosyvoice3.checkpoint import TEXT_PREFIX, language_part
from antiphon.families.cosyvoice3.config import CosyVoice3Config, load_config
from antiphon.families.cosyvoice3.flow_context import slots_that_fit
from antiphon.families.cosyvoice3.options import MAX_POSITIONS
from antiphon.families.cosyvoice3.prompt import CosyVoice3Prompt
from antiphon.families.kit.loading import RunnerOptions, runner_of, weights_for
from antiphon.nn.backends import backend_of
from antiphon.nn.device_writes import PackedUpload
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.sampler import RepetitionAware, SamplingReach, SamplingRows, SamplingTable
from antiphon.nn.transformer import Transformer

_OUTPUTS_MULTIPLE = 64
_DRAW, _REDRAW = 0, 1
"""Keys of a frame's two draws, in place of a codebook number."""
CosyVoice3Runner: TypeAlias = ModelRunner[CosyVoice3Prompt]


class SpeechLM(TokenModel[CosyVoice3Prompt]):
    def __init__(
        self,
        config: CosyVoice3Config,
        weights: Weights,
        context: LoadContext,
        max_positions: int,
        is_batch_invariant: bool,
    ) -> None:
        """Build the model from a checkpoint's tensors, all of one type and on one device."""
        tables = [weights["speech_embedding.weight"], weights[f"{TEXT_PREFIX}.embed_tokens.weight"]]
        num_slots, how = context.max_slots, {"is_batch_invariant": is_batch_invariant}
        transformer = Transformer.of(weights, TEXT_PREFIX, config.text, max_positions, **how)
        rows = {"num_slots": num_slots, "frame_size": 1, "max_positions": max_positions}
        super().__init__(transformer, torch.cat(tables), **rows)
        vocab_size, device = len(tables[0]), self._device
        # Padding of the outputs: kernels are faster with a multiple.
        head = F.pad(weights["llm_decoder.weight"], (0, 0, 0, -vocab_size % _OUTPUTS_MULTIPLE))
        self._head = Linear(head, is_batch_invariant=is_batch_invariant)
        self._config = config
        self._backend = backend_of(self.like)
        self._table = SamplingTable(num_slots + 1, vocab_size, device)
        self._is_end = torch.arange(vocab_size, device=device) >= config.num_tokens
        self._draws = torch.tensor((_DRAW, _REDRAW), device=device)

    def open(self, prompt: Prompt, frames: Codes) -> CosyVoice3Prompt:
        data = prompt.data
        assert isinstance(data, CosyVoice3Prompt)
        return CosyVoice3Prompt(np.concatenate((data.ids, frames[:, 0])))

    def start(self, starts: Sequence[SlotStart[CosyVoice3Prompt]], uploads: PackedUpload) -> None:
        self.begin_slots(starts, uploads)
        self._table.write({each.slot: each.prompt.sampling for each in starts}, uploads)

    def sampling_shape(self, slots: Sequence[int]) -> SamplingReach:
        return self._table.reach(slots)

    def logits(self, hidden: Tensor) -> Tensor:
        return super().logits(hidden)[:, : len(self._is_end)]

    def draw(self, logits: Tensor, inputs: Inputs, sampling: SamplingReach) -> Frames:
        slots, frames = inputs.slots, Frames.empty(len(inputs.slots), self.slots)
        if self.uses_kernels:
            self._draw_by_kernel(logits, inputs, frames)
            return frames
        logits = self.hold_end(logits.float(), self._is_end, inputs)
        rows = self._table.rows(slots, sampling)
        seeds = self.slots.seeds[slots]
        noise = self._backend.gumbel_noise(seeds, inputs.frames, self._draws, logits.shape[1])
        drawn = draw_nucleus(logits, rows, noise[:, _DRAW])
        defaults = self._config.sampling
        recent = self.slots.recent(slots, inputs.frames, defaults.window)
        again = RepetitionAware(recent, noise[:, _REDRAW], defaults.max_share)
        # A repeated token cannot be drawn again by the second draw.
        others = logits.scatter(1, drawn[0][:, None], -torch.inf)
        frames.codes[:, 0], frames.scores[:, 0] = again(others, rows, drawn)
        return frames

    def _draw_by_kernel(self, logits: Tensor, inputs: Inputs, frames: Frames) -> None:
        from antiphon.nn.kernels import nucleus_draw

        slots, defaults = self.slots, self._config.sampling
        nucleus_draw.draw_nucleus(
            logits,
            inputs.slots,
            inputs.frames,
            nucleus_draw.DrawSlots(
                self._table.parameters, slots.seeds, slots.min_frames, slots.frame_store
            ),
            (frames.codes[:, 0], frames.scores[:, 0]),
            first_end=self._config.num_tokens,
            window=defaults.window,
            max_share=defaults.max_share,
        )

    def commit(self, frames: Frames, inputs: Inputs, *, is_replay: bool) -> None:
        self.feed_back(frames, inputs, is_replay=is_replay, is_end=self._is_end)


def draw_nucleus(logits: Tensor, rows: SamplingRows, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Draw from the most likely tokens of each row.

    Candidates are the fewest tokens whose probabilities reach ``top_p``, at most ``top_k``.
    Probabilities are taken among all tokens; the usual order takes them among those of top-k.

    Args:
        logits: f32 ``[num_rows, vocab_size]``.
        noise: noise from `antiphon.nn.sampler.gumbel_noise`, of the shape of the logits.

    Returns:
        Tokens, int64, and their scores, f32, both ``[num_rows]``.
    """
    is_greedy = (rows.temperature == 0)[:, None]
    scores = logits / torch.where(is_greedy[:, 0], 1.0, rows.temperature)[:, None]
    ranked = torch.topk(scores, rows.reach.max_top_k, dim=-1).values
    shares = (ranked - scores.logsumexp(dim=-1, keepdim=True)).exp()
    is_kept = shares.cumsum(dim=-1) - shares < rows.top_p[:, None]
    is_kept &= torch.arange(ranked.shape[1], device=ranked.device) < rows.top_k[:, None]
    is_kept[:, 0].fill_(value=True)
    least = ranked.masked_fill(~is_kept, torch.inf).amin(dim=-1, keepdim=True)
    kept = scores.masked_fill(scores < least, -torch.inf)
    best = torch.max(kept + torch.where(is_greedy, 0.0, noise), dim=-1)
    return best.indices, best.values


def load_runner(
    context: LoadContext, *, max_positions: int = MAX_POSITIONS, **how: Unpack[RunnerOptions]
) -> CosyVoice3Runner:
    """Load a checkpoint's language model and its runner; see `runner_of`; raises ModelLoadError."""
    config, how_read = load_config(context.checkpoint), weights_for(context)
    device = how_read["like"].device
    context = replace(context, max_slots=slots_that_fit(context, config.flow, device))
    opened = language_part(context.checkpoint, config).open(**how_read)
    is_invariant = context.is_deterministic or bool(context.quantize and device.type == "cpu")
    with torch.inference_mode(), opened as weights:
        model = SpeechLM(config, weights, context, max_positions, is_invariant)
    return runner_of(context, model, max_positions, **how)
