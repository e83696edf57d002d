"""Talker, predictor and the state of every slot on the device: one call makes one frame a slot.

A step reads and writes tensors only; nothing in it waits for the device or asks what a tensor
holds. What the host must know (slot numbers, lengths) comes in as numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.engine.attention import DecodeAttention, PrefillAttention, SlotCache
from antiphon.engine.sampler import (
    SamplingTable,
    gumbel_noise,
    penalize_repetition,
    sample,
    seed_words,
)
from antiphon.engine.weights import Progress
from antiphon.models.qwen3_tts.config import MIN_NEW_TOKENS, Qwen3TTSConfig
from antiphon.models.qwen3_tts.predictor import Predictor
from antiphon.models.qwen3_tts.prompt_layout import SPEAKER, Ids, Qwen3TTSPrompt
from antiphon.models.qwen3_tts.talker import Talker
from antiphon.models.qwen3_tts.weights import language_model_weights
from antiphon.types import Sampling

FRAME, STOP, FAULT = 0, 1, 2
"""What became of a row in a step: a frame, the end of speech, or numbers that are none."""


@dataclass(frozen=True, slots=True)
class SlotTensors:
    """The state of every slot, one row each.

    Attributes:
        pending: codec side of the next input, ``[num_slots, hidden_size]``.
        text: text id beside each frame's input, int64, ``[num_slots, max_positions]``.
        positions: of the next input, int64.
        frames: made so far, int64.
        seeds: see `seed_words`, int64, ``[num_slots, 2]``.
        has_occurred: group-0 codes said so far, bool, ``[num_slots, vocab_size]``.
    """

    pending: Tensor
    text: Tensor
    positions: Tensor
    frames: Tensor
    seeds: Tensor
    has_occurred: Tensor

    @classmethod
    def zeros(
        cls, num_slots: int, max_positions: int, vocab_size: int, table: Tensor
    ) -> "SlotTensors":
        """Make the state of idle slots beside the embedding ``table``."""

        def integers(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=table.device)

        return cls(
            pending=table.new_zeros(num_slots, table.shape[1]),
            text=integers(num_slots, max_positions),
            positions=integers(num_slots),
            frames=integers(num_slots),
            seeds=integers(num_slots, 2),
            has_occurred=table.new_zeros(num_slots, vocab_size, dtype=torch.bool),
        )


class LanguageModel:
    """Makes frames of codes for the requests in its slots.

    Attributes:
        num_slots: requests that fit.
        max_positions: of each, prompt and frames together.
    """

    def __init__(
        self,
        config: Qwen3TTSConfig,
        talker: Talker,
        predictor: Predictor,
        *,
        num_slots: int,
        max_positions: int,
    ) -> None:
        self.num_slots = num_slots
        self.max_positions = max_positions
        self.talker = talker
        self.predictor = predictor
        self._tokens = config.tokens
        self._codec_tokens = config.talker.tokens
        self._device = talker.head.weight.device
        self._cache: SlotCache = talker.new_cache(num_slots, max_positions)
        self._frame_cache: SlotCache = predictor.new_cache(num_slots)
        vocab_size = config.talker.vocab_size
        self._slots = SlotTensors.zeros(
            num_slots, max_positions, vocab_size, talker.frame_table.rows
        )
        self._talker_sampling = SamplingTable(num_slots, vocab_size, self._device)
        self._predictor_sampling = SamplingTable(
            num_slots, config.predictor.vocab_size, self._device
        )
        groups = torch.arange(config.talker.num_groups, device=self._device)
        self._group_0, self._later_groups = groups[:1], groups[1:]

    def start(self, slot: int, seed: int, sampling: Sampling, prompt: Qwen3TTSPrompt) -> None:
        """Give a slot to a request, whatever it held before."""
        state = self._slots
        state.text[slot] = self._tokens.tts_pad
        state.positions[slot] = prompt.num_prefilled
        state.frames[slot] = 0
        state.seeds[slot] = self._integers(seed_words(seed))
        state.has_occurred[slot] = False
        self._talker_sampling.write(slot, sampling)
        self._predictor_sampling.write(slot, prompt.predictor_sampling)

    def write_text(self, slot: int, start: int, ids: Ids) -> None:
        """Set the text beside the frames from number ``start`` on; what cannot fit is unheard."""
        row = self._slots.text[slot, start : start + len(ids)]
        row.copy_(self._integers(ids[: len(row)]))

    def prefill(self, slot: int, prompt: Qwen3TTSPrompt, text: Ids) -> None:
        """Read a slot's prompt, all but the last position, which is the first step's input.

        ``text`` is the text track beside begin-of-speech and the reference's frames but the last,
        padded where it has ended: as many ids as there are reference frames.
        """
        lead = self._lead(prompt)
        beside = F.embedding(self._integers(text), self.talker.text_table)
        states = torch.cat((self._prefix(prompt), lead[:-1] + beside))[None]
        rotation = self.talker.transformer.rope.between(0, states.shape[1])
        self.talker(states, rotation, PrefillAttention(self._cache, slot))
        self._slots.pending[slot] = lead[-1]

    def step(self, slots: Sequence[int], num_visible: int) -> Tensor:
        """Make one frame in each of ``slots``.

        Args:
            slots: all prefilled.
            num_visible: at least the number of positions that the fullest of them will then hold.

        Returns:
            int64, ``[len(slots), num_groups + 1]``: a frame's codes, then what became of it.
        """
        index = self._integers(slots)
        state = self._slots
        frames, seeds = state.frames[index], state.seeds[index]
        hidden = self._talk(index, frames, num_visible)

        noise = gumbel_noise(seeds, frames, self._group_0, self.talker.config.vocab_size)[:, 0]
        rows = self._talker_sampling.rows(slots, index)
        logits = self.talker.logits(hidden)
        logits = penalize_repetition(logits, state.has_occurred[index], rows.repetition_penalty)
        logits = self.talker.forbid(logits, frames < MIN_NEW_TOKENS)
        first_codes, first_scores = sample(logits, rows, noise)

        later_vocab_size = self.predictor.config.vocab_size
        noise = gumbel_noise(seeds, frames, self._later_groups, later_vocab_size)
        rows = self._predictor_sampling.rows(slots, index)
        codes, scores = self.predictor(hidden, first_codes, rows, noise, self._frame_cache)

        state.pending[index] = self.talker.frame_table.frames(codes)
        state.positions[index] += 1
        state.frames[index] += 1
        state.has_occurred[index, first_codes] = True
        is_sound = first_scores.isfinite() & scores.isfinite().all(dim=1)
        outcome = torch.where(first_codes == self._codec_tokens.eos, STOP, FRAME)
        outcome = torch.where(is_sound, outcome, FAULT)
        return torch.cat((codes, outcome[:, None]), dim=1)

    def clear(self, slot: int) -> None:
        """Wipe a slot whose numbers went bad, so that the next request in it does not meet them."""
        self._cache.clear(slot)
        self._slots.pending[slot] = 0

    def _talk(self, index: Tensor, frames: Tensor, num_visible: int) -> Tensor:
        """Run the talker one position on; return its states, ``[num_rows, hidden_size]``."""
        state = self._slots
        text = F.embedding(state.text[index, frames], self.talker.text_table)
        positions = state.positions[index]
        rotation = self.talker.transformer.rope.at(positions[:, None])
        attend = DecodeAttention(self._cache, index, positions, num_visible)
        return self.talker((state.pending[index] + text)[:, None], rotation, attend)[:, 0]

    def _lead(self, prompt: Qwen3TTSPrompt) -> Tensor:
        """Embed begin-of-speech and the reference's frames, ``[1 + num_frames, hidden_size]``."""
        table = self.talker.frame_table
        bos = table.group_0(self._integers([self._codec_tokens.bos]))
        if prompt.reference is None:
            return bos
        codes = torch.tensor(prompt.reference, device=self._device)
        return torch.cat((bos, table.frames(codes)))

    def _prefix(self, prompt: Qwen3TTSPrompt) -> Tensor:
        """Embed the prefix, ``[num_columns, hidden_size]``."""
        columns = np.array(prompt.prefix, np.int64)
        text, codec = self._integers(columns[:, 0]), self._integers(columns[:, 1])
        states = _embed_known(text, self.talker.text_table)
        states = states + _embed_known(codec, self.talker.frame_table.rows)
        if prompt.speaker is not None:
            speaker = torch.tensor(prompt.speaker).to(states)
            states = torch.where((codec == SPEAKER)[:, None], states + speaker, states)
        return states

    def _integers(self, values: Sequence[int] | np.ndarray) -> Tensor:
        return torch.as_tensor(values, dtype=torch.int64).to(self._device)


def _embed_known(ids: Tensor, table: Tensor) -> Tensor:
    """Look ids up; negative ones, which stand for no id, give zeros."""
    rows = F.embedding(ids.clamp(min=0), table)
    return torch.where((ids >= 0)[:, None], rows, 0.0)


def load_language_model(
    path: Path,
    config: Qwen3TTSConfig,
    *,
    like: Tensor,
    num_slots: int,
    max_positions: int,
    progress: Progress | None = None,
) -> LanguageModel:
    """Load talker and predictor from a checkpoint's directory.

    Args:
        path: the directory.
        config: read from it.
        like: a tensor of the wanted type, on the wanted device.
        num_slots: requests that fit.
        max_positions: of each, prompt and frames together.
        progress: told of every tensor that has been read.

    Raises:
        ModelLoadError: tensors are missing, or of the wrong shape.
    """
    with (
        torch.inference_mode(),
        language_model_weights(path, config, like=like, progress=progress) as weights,
    ):
        talker = Talker.of(weights, config.talker, max_positions)
        predictor = Predictor.of(weights, config.predictor, talker.frame_table)
        return LanguageModel(
            config, talker, predictor, num_slots=num_slots, max_positions=max_positions
        )
