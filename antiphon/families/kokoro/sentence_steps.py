"""A sentence in two steps of fixed sizes, on tensors that keep their place: for CUDA graphs.

Only the durations are read back between them: they determine the length of the second step.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.families.kokoro.model import KokoroModel
from antiphon.families.kokoro.padding import PaddedRows
from antiphon.families.kokoro.vocoder import NUM_HARMONICS
from antiphon.nn.backends import backend_of
from antiphon.nn.sampler import seed_words

_NUM_NUMBERS = 4  # behind the ids: how many there are, the seed's two words, the sentence's number


class SentenceSteps:
    """One sentence at a time, with all that is known of it on the device."""

    def __init__(self, model: KokoroModel, device: torch.device) -> None:
        """Allocate; the model is prepared for padded rows."""
        self._model = model
        config, pinned = model.config, device.type == "cuda"
        self.max_tokens = config.num_positions
        width = self.max_tokens + _NUM_NUMBERS
        self._host_words = torch.zeros(1, width, dtype=torch.int64, pin_memory=pinned)
        self._host_style = torch.zeros(1, 2 * config.style_dim, pin_memory=pinned)
        self._words = self._host_words.to(device, copy=True)
        self._style = self._host_style.to(device, copy=True)
        self._durations = torch.zeros(1, self.max_tokens, dtype=torch.int64, device=device)
        size = config.hidden_dim + config.style_dim
        self._encoded = torch.zeros(1, self.max_tokens, size, device=device)
        self._text = torch.zeros(1, config.hidden_dim, self.max_tokens, device=device)

    def fill(self, ids: tuple[int, ...], style: NDArray[np.float32], seed: tuple[int, int]) -> None:
        """Upload a sentence, when that before is done.

        Args:
            ids: phoneme ids, with padding at both ends.
            style: ``[1, 2 * style_dim]``.
            seed: seed of the request, and the sentence's number.
        """
        words = self._host_words.numpy()[0]
        words[: len(ids)], words[len(ids) :] = ids, 0
        words[self.max_tokens :] = len(ids), *seed_words(seed[0]), seed[1]
        self._host_style.numpy()[:] = style
        self._words.copy_(self._host_words, non_blocking=True)
        self._style.copy_(self._host_style, non_blocking=True)

    def pretend(self, num_frames: int) -> None:
        """Let the first phoneme last this long, so that `say` can be captured before it is used."""
        self._durations.zero_()
        self._durations[:, :1].fill_(num_frames)

    def read(self, num_tokens: int) -> Tensor:
        """Read a sentence of up to so many ids; return durations in frames, ``[1, max_tokens]``."""
        rows = PaddedRows.of(self._words[:, self.max_tokens], num_tokens)
        ids = self._words[:, :num_tokens]
        encoded, text, durations = self._model.read(ids, self._style, rows)
        self._encoded[:, :num_tokens] = encoded
        self._text[:, :, :num_tokens] = text
        self._durations.zero_()
        self._durations[:, :num_tokens] = durations
        return self._durations

    def say(self, num_frames: int) -> Tensor:
        """Return ``[1, num_samples]`` of the encoded text, which has at most ``num_frames``."""
        places, rows = frames_of(self._durations, num_frames)
        encoded = self._encoded.gather(1, places.mT.expand(-1, -1, self._encoded.shape[2]))
        text = self._text.gather(2, places.expand(-1, self._text.shape[1], -1))
        return self._model.say(encoded, text, self._style, self._draw, rows)

    def speak_whole(self, num_tokens: int) -> Tensor:
        """Return the samples of a sentence of exactly so many ids, ``[num_samples]``, unpadded."""
        samples: Tensor
        samples, _ = self._model(self._words[:, :num_tokens], self._style, self._draw)
        return samples

    def _draw(self, length: int) -> Tensor:
        """Return noise for a pitch curve: numbers of the seed and the place, not of the length."""
        seeds, index = self._words[:, -3:-1].contiguous(), self._words[:, -1].contiguous()
        places = torch.arange(length, device=seeds.device)
        size = self._model.config.frame_upsampling * NUM_HARMONICS
        return backend_of(seeds).gaussian_noise(seeds, index, places, size)


def frames_of(durations: Tensor, num_frames: int) -> tuple[Tensor, PaddedRows]:
    """Return the phoneme of each frame, int64 ``[B, 1, num_frames]``, and whose frames they are.

    Args:
        durations: durations of phonemes in frames, int64 ``[B, length]``.
        num_frames: number of frames, at least that of the longest row.
    """
    ends = durations.cumsum(dim=1)
    frames = torch.arange(num_frames, device=ends.device).expand(len(ends), -1).contiguous()
    places = torch.searchsorted(ends, frames, right=True).clamp(max=ends.shape[1] - 1)
    return places[:, None], PaddedRows.of(ends[:, -1], num_frames)
