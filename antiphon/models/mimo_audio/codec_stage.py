"""The decoder of the audio tokenizer as a stage: it reads groups where the model has put them.

Groups go through one by one, and rows one by one, so that samples depend on nothing else. On a GPU
one CUDA graph holds the whole pass, which is the same for text, speech and the end of a stream.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.plan import CodecChunk
from antiphon.models.mimo_audio.checkpoint_schema import (
    ENCODER_ONLY,
    UNUSED_IN_TOKENIZER,
    spare_codebooks,
    tokenizer_layout_of,
)
from antiphon.models.mimo_audio.codec import AudioDecoder, CodecState
from antiphon.models.mimo_audio.config import AudioTokenizerConfig
from antiphon.models.mimo_audio.config_reader import load_config, load_tokenizer_config
from antiphon.models.mimo_audio.text_tokenizer import load_text_tokenizer
from antiphon.models.mimo_audio.tokenizer_path import tokenizer_path
from antiphon.models.spec import LoadContext
from antiphon.nn import kernels
from antiphon.nn.device import resolve_device
from antiphon.nn.graphs import Graphs
from antiphon.nn.host_device import Download, upload
from antiphon.nn.precision import exact_float32
from antiphon.nn.weights import open_weights
from antiphon.types import Samples

_CHUNK_SIZES = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class StageState:
    """The streams of one batch, and the buffers that a pass reads.

    Attributes:
        codec: of all slots, and of one more, which a graph is captured with.
        frame: text id and codes of the group, int64 ``[frame_size]``.
        slot: int64 ``[1]``.
        is_end: whether the stream has ended, bool ``[1]``.
    """

    codec: CodecState
    frame: Tensor
    slot: Tensor
    is_end: Tensor
    graphs: Graphs


@dataclass(frozen=True, slots=True)
class PendingGroups:
    """A `antiphon.codec.protocol.PendingAudio`: copies to the host under way, of each slot."""

    downloads: Mapping[int, Download | None]

    @property
    def is_done(self) -> bool:
        return all(each is None or each.is_done for each in self.downloads.values())

    def wait(self) -> None:
        for each in self.downloads.values():
            if each is not None:
                each.wait()

    def result(self) -> dict[int, Samples]:
        return {slot: _heard(download) for slot, download in self.downloads.items()}


class MiMoAudioCodec:
    """An `antiphon.codec.protocol.ElasticDecoder`; a frame is a text id and a group of codes."""

    is_elastic: Literal[True] = True
    chunk_sizes = _CHUNK_SIZES
    look_ahead_frames = 0
    group_frames = 1

    def __init__(self, decoder: AudioDecoder, config: AudioTokenizerConfig, empty_id: int) -> None:
        """Wrap a decoder; ``empty_id`` is the text id of groups that are speech."""
        self._decoder = decoder
        self._empty_id = empty_id
        self._num_codes = config.num_codes_used
        self._frame_size = 1 + config.group_frames * config.num_codes_used
        self._device = decoder.table.device
        self.sample_rate_hz = config.sample_rate_hz
        self.samples_per_frame = config.samples_per_group

    @torch.inference_mode()
    def open(self, num_slots: int) -> StageState:
        """Return fresh streams, their graph captured."""
        device = self._device
        state = StageState(
            codec=self._decoder.open(num_slots + 1),
            frame=torch.zeros(self._frame_size, dtype=torch.int64, device=device),
            slot=torch.full((1,), num_slots, dtype=torch.int64, device=device),
            is_end=torch.zeros(1, dtype=torch.bool, device=device),
            graphs=Graphs(device, is_enabled=kernels.run_on(self._decoder.table)),
        )
        if state.graphs.is_enabled:
            torch.cuda.synchronize(device)
            with exact_float32():
                state.graphs.capture("tick", partial(self._tick, state))
            state.graphs.settle()
        return state

    def on_stream(self, state: StageState) -> AbstractContextManager[object]:
        return state.graphs.on_stream()

    @torch.inference_mode()
    def reset(self, state: StageState, slot: int, conditioning: None = None) -> None:
        state.codec.reset(slot)

    def prime(self, state: StageState, slot: int, frames: NDArray[Any]) -> None:
        """Take frames in whose audio is not used."""
        self.replay(state, slot, frames)

    @torch.inference_mode()
    def replay(
        self, state: StageState, slot: int, frames: NDArray[Any], num_ahead: int = 0
    ) -> None:
        self._decode(upload(np.asarray(frames), self._device), slot, state, is_end=False)

    @torch.inference_mode()
    def launch(
        self,
        chunks: Sequence[CodecChunk],
        frame_store: Tensor | NDArray[np.integer[Any]],
        state: StageState,
    ) -> PendingGroups:
        """Begin to decode chunks; see the protocol."""
        downloads: dict[int, Download | None] = {}
        num_kept = frame_store.shape[1]
        for each in chunks:
            stop = each.start + each.num_frames
            is_end = each.end is not None and stop >= each.end
            stop = stop if each.end is None else min(stop, each.end)
            places = [number % num_kept for number in range(each.start, stop)]
            if isinstance(frame_store, np.ndarray):
                frames = upload(frame_store[each.slot, places], self._device)
            else:
                frames = torch.stack([frame_store[each.slot, place] for place in places])
            parts = self._decode(frames, each.slot, state, is_end=is_end)
            downloads[each.slot] = Download(torch.stack(parts)) if parts else None
        return PendingGroups(downloads)

    def close(self) -> None:
        """Nothing to free that does not go with it."""

    def _decode(
        self, frames: Tensor, slot: int, state: StageState, *, is_end: bool
    ) -> list[Tensor]:
        """Run a pass for each frame, and at the end as many as the decoder is late."""
        state.slot.fill_(slot)
        state.is_end.fill_(False)
        parts = []
        for frame in frames:
            if not frames.is_cuda and int(frame[0]) != self._empty_id:
                continue  # on the host it costs nothing to look, and a pass does
            state.frame.copy_(frame)
            parts.append(self._run(state))
        if is_end:
            state.is_end.fill_(True)
            parts += [self._run(state) for _ in range(self._decoder.num_late_ticks)]
        return parts

    def _run(self, state: StageState) -> Tensor:
        return state.graphs.run("tick", partial(self._tick, state)).clone()

    def _tick(self, state: StageState) -> Tensor:
        is_group = (state.frame[:1] == self._empty_id) & ~state.is_end
        codes = state.frame[1:].view(-1, self._num_codes)
        flags = torch.cat((is_group, state.is_end))
        return self._decoder.tick(codes, state.codec, state.slot, flags)


def load_codec(context: LoadContext) -> MiMoAudioCodec:
    """Load what turns groups of codes into audio.

    It computes in float32 everywhere; ``context.dtype`` is the language model's.

    Raises:
        ModelLoadError: the audio tokenizer is not there, or cannot be served.
    """
    assert context.path is not None, "the family needs a checkpoint"
    model = load_config(context.path)
    path = tokenizer_path(context.path)
    config = load_tokenizer_config(path, model)
    empty_id = load_text_tokenizer(context.path, model.vocab_size).empty_id
    device = resolve_device(context.device, context.memory_fraction)
    like = torch.empty(0, dtype=torch.float32, device=device)
    opened = open_weights(
        path,
        tokenizer_layout_of(config),
        like=like,
        unused=f"{UNUSED_IN_TOKENIZER}|{ENCODER_ONLY}|{spare_codebooks(config)}",
        progress=context.progress_of("codec"),
    )
    with torch.inference_mode(), opened as weights:
        return MiMoAudioCodec(AudioDecoder.of(weights, config), config, empty_id)


def _heard(download: Download | None) -> Samples:
    """Cut out of each pass what is heard."""
    if download is None:
        return np.zeros(0, np.float32)
    passes = download.wait().numpy()
    parts = [each[int(each[-2]) : int(each[-1])] for each in passes]
    return np.concatenate(parts)
