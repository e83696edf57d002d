"""Kokoro's network as CUDA graphs: one launch replaces about a thousand small kernels.

A sentence is padded to one of a few sizes, whatever else runs, so its samples depend on its seed
alone. Several sentences run side by side, each in a lane: their kernels fill the GPU together. A
sentence takes two steps of fixed sizes, on tensors that keep their place; only the durations are
read back between them, which determine the length of the second step.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from queue import LifoQueue
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.types import Samples
from antiphon.families.kokoro.checkpoint import FRAME_SAMPLES, PAD_ID
from antiphon.families.kokoro.model import KokoroModel
from antiphon.families.kokoro.padding import PaddedRows, make_padded
from antiphon.families.kokoro.vocoder import NUM_HARMONICS
from antiphon.nn.backends import backend_of
from antiphon.nn.device_writes import Download
from antiphon.nn.graphs import Graphs, round_up
from antiphon.nn.precision import exact_float32
from antiphon.nn.sampler import seed_words

_TOKENS = (32, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512)
_FRAMES = (40, 80, 120, 160, 200, 240, 320, 400, 480, 640, 960)
"""The longest is 24 s; what is longer is rare, and runs unpadded."""
_USUAL_TOKENS, _USUAL_FRAMES = 192, 480
"""Sizes up to these are captured when the network is loaded, others when they are first used."""

_Step: TypeAlias = tuple[Literal["read", "samples"], int]
_Spoken: TypeAlias = tuple[Samples, NDArray[np.float32]]
_NUM_NUMBERS = 4  # behind the ids: how many there are, the seed's two words, the sentence's number


class GraphNetwork:
    """Speaks sentences; any number of threads may call it at the same time.

    One thread makes all graphs: cuDNN's plans, which take longer than what they plan, are kept by
    PyTorch for each thread and shape.
    """

    def __init__(
        self, model: KokoroModel, device: torch.device, *, num_lanes: int = 3, captures: bool = True
    ) -> None:
        """Capture the usual graphs of a network on ``device``.

        Args:
            num_lanes: sentences that run at the same time.
            captures: whether steps become graphs, on a GPU.
        """
        make_padded(model)
        self._maker = ThreadPoolExecutor(1, "kokoro-graphs")
        self._lanes: LifoQueue[_Lane] = LifoQueue()
        for _ in range(num_lanes):
            lane = _Lane(model, device, self._maker, captures)
            self._maker.submit(lane.prepare).result()
            self._lanes.put(lane)

    def speak(
        self, ids: tuple[int, ...], style: NDArray[np.float32], seed: tuple[int, int]
    ) -> _Spoken:
        """Return samples and durations; see `antiphon.families.kokoro.generator.KokoroNetwork`."""
        lane = self._lanes.get()
        try:
            return lane.speak((PAD_ID, *ids, PAD_ID), style, seed)
        finally:
            self._lanes.put(lane)


class _Lane:
    """The tensors and graphs of one sentence at a time, on a stream of their own."""

    def __init__(
        self, model: KokoroModel, device: torch.device, maker: ThreadPoolExecutor, captures: bool
    ) -> None:
        self._maker = maker
        self._steps = SentenceSteps(model, device)
        self._graphs = Graphs(device, is_enabled=captures)
        self._tokens = sorted({min(each, self._steps.max_tokens) for each in _TOKENS})
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # weights and tensors were made on another stream

    @torch.inference_mode()
    def prepare(self) -> None:
        """Capture the usual graphs, the longest first: the shorter ones fit into its memory."""
        if not self._graphs.is_enabled:
            return
        frames: list[_Step] = [("samples", each) for each in _FRAMES if each <= _USUAL_FRAMES]
        tokens: list[_Step] = [("read", each) for each in self._tokens if each <= _USUAL_TOKENS]
        with self._graphs.on_stream():
            self._steps.fill((PAD_ID,) * 2, np.zeros(1, np.float32), (0, 0))
            self._steps.pretend(min(_FRAMES))
        for step in (*reversed(frames), *reversed(tokens)):
            self._capture(step)
            with self._graphs.on_stream():  # the first run takes longer than others
                self._graphs.run(step, self._function(step))
        self._graphs.settle()

    @torch.inference_mode()
    def speak(
        self, ids: tuple[int, ...], style: NDArray[np.float32], seed: tuple[int, int]
    ) -> _Spoken:
        """Speak a sentence, in the only thread that uses this lane meanwhile; ids have padding."""
        with self._graphs.on_stream():
            self._steps.fill(ids, style, seed)
            read = self._run(("read", round_up(len(ids), self._tokens)))
            durations = Download(read[0, : len(ids)]).wait().numpy()
            num_frames = int(durations.sum())
            if num_frames <= max(_FRAMES):
                output = self._run(("samples", round_up(num_frames, _FRAMES)))[0]
            else:
                output = self._maker.submit(self._speak_whole, len(ids)).result()
            samples = Download(output[: num_frames * FRAME_SAMPLES]).wait().numpy()
        return samples, durations.astype(np.float32)

    def _run(self, step: _Step) -> Tensor:
        """Run a step on the current stream; its result holds until it runs again."""
        if not self._graphs.is_enabled:
            return self._maker.submit(self._call, step).result()
        if step not in self._graphs:
            self._maker.submit(self._capture, step).result()
        return self._graphs.run(step, self._function(step))

    def _function(self, step: _Step) -> "partial[Tensor]":
        kind, size = step
        return partial(self._steps.read if kind == "read" else self._steps.samples, size)

    @torch.inference_mode()
    def _capture(self, step: _Step) -> None:
        with _exact():
            self._graphs.capture(step, self._function(step))

    @torch.inference_mode()
    def _call(self, step: _Step) -> Tensor:
        with _exact(), self._graphs.on_stream():
            return self._function(step)()

    @torch.inference_mode()
    def _speak_whole(self, num_tokens: int) -> Tensor:
        with _exact(), self._graphs.on_stream():
            return self._steps.speak_whole(num_tokens)


@contextmanager
def _exact() -> Iterator[None]:
    """Compute in float32 that is float32, in an order of sums that is the same every time."""
    with exact_float32():  # which keeps others from these settings
        is_deterministic = torch.backends.cudnn.deterministic
        torch.backends.cudnn.deterministic = True
        try:
            yield
        finally:
            torch.backends.cudnn.deterministic = is_deterministic


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
        """Upload a sentence, when that before is done; ids have padding at both ends."""
        words = self._host_words.numpy()[0]
        words[: len(ids)], words[len(ids) :] = ids, 0
        words[self.max_tokens :] = len(ids), *seed_words(seed[0]), seed[1]
        self._host_style.numpy()[:] = style
        self._words.copy_(self._host_words, non_blocking=True)
        self._style.copy_(self._host_style, non_blocking=True)

    def pretend(self, num_frames: int) -> None:
        """Give the first phoneme all frames, so that `samples` can be captured before its use."""
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

    def samples(self, num_frames: int) -> Tensor:
        """Return ``[1, num_samples]`` of the encoded text, which has at most ``num_frames``."""
        places, rows = frames_of(self._durations, num_frames)
        encoded = self._encoded.gather(1, places.mT.expand(-1, -1, self._encoded.shape[2]))
        text = self._text.gather(2, places.expand(-1, self._text.shape[1], -1))
        return self._model.samples(encoded, text, self._style, self._draw, rows)

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

    Durations of phonemes are int64 ``[B, length]``; no row has more than ``num_frames``.
    """
    ends = durations.cumsum(dim=1)
    frames = torch.arange(num_frames, device=ends.device).expand(len(ends), -1).contiguous()
    places = torch.searchsorted(ends, frames, right=True).clamp(max=ends.shape[1] - 1)
    return places[:, None], PaddedRows.of(ends[:, -1], num_frames)
