"""Decoder stage of the audio tokenizer, which reads groups from the language model's buffers.

Groups are decoded four at a time, counted from the first frame. A pass is the same for text, speech
and the end of a stream, which takes as many steps as its passes. On a GPU the next groups of all
rows form one pass in a CUDA graph; the batch changes a row by rounding at most. On the CPU rows are
decoded one by one.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import product, zip_longest
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Samples
from antiphon.engine.plan import CodecChunk
from antiphon.families.kit.loading import weights_for
from antiphon.families.mimo_audio.checkpoint import decoder_part
from antiphon.families.mimo_audio.codec import AudioDecoder, CodecState
from antiphon.families.mimo_audio.config import (
    PASS_GROUPS,
    AudioTokenizerConfig,
    load_config,
    load_tokenizer_config,
    tokenizer_path,
)
from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer
from antiphon.nn.device_writes import Download, upload
from antiphon.nn.graphs import Graphs, round_up
from antiphon.nn.precision import exact_float32
from antiphon.nn.weights import Progress, open_weights

_NOTHING, _GROUP, _LATE = range(3)
"""Contents of a place in a pass: nothing, a group of the stream, or one past its end."""
_SIZES = (1, 2, 4, 8, 12, 16, 24, 32)
"""Rows of a pass; on a GPU without kernels a pass copies each row's KV cache, 10 MB."""
_NUM_APART = 4
"""Rows past their ends from which on they are a pass of their own, without most of the layers."""


@dataclass(frozen=True, slots=True)
class StageState:
    """The streams of one batch, and the input buffers of a pass.

    Attributes:
        codec: state of all slots, and of one more for padding.
        frames: text id and codes of each row's groups, int64 ``[n, PASS_GROUPS, frame_size]``,
            with rows for the largest pass.
        rows: slot and place contents of each row, int64 ``[n, 1 + PASS_GROUPS]``.
        graphs: CUDA graphs by number of rows, and whether these are past their ends.
        sizes: captured numbers of rows, ascending.
    """

    codec: CodecState
    frames: Tensor
    rows: Tensor
    graphs: Graphs
    sizes: tuple[int, ...]

    @property
    def padding(self) -> int:
        """The slot that pads a pass."""
        return len(self.codec.ticks) - 1


@dataclass(frozen=True, slots=True)
class GroupPass:
    """One pass over a row.

    Attributes:
        num_late: number of groups past the end, which follow these.
        first_late: number of such groups in earlier passes.
    """

    slot: int
    places: Sequence[int]
    num_late: int
    first_late: int

    def row(self) -> list[int]:
        """Return the slot, the contents of each place, then the group indices in the launch."""
        rest = PASS_GROUPS - len(self.places) - self.num_late
        kinds = [_GROUP] * len(self.places) + [_LATE] * self.num_late + [_NOTHING] * rest
        return [self.slot, *kinds, *self.places, *[0] * (self.num_late + rest)]


def _passes(
    slot: int, places: Sequence[int], num_late: int = 0, first_late: int = 0
) -> list[GroupPass]:
    """Split groups, by their indices in the launch, and those past the end into passes."""
    passes = []
    for start in range(0, len(places) + num_late, PASS_GROUPS):
        own = places[start : start + PASS_GROUPS]
        num_own_late = min(PASS_GROUPS, len(places) + num_late - start) - len(own)
        passes.append(GroupPass(slot, own, num_own_late, first_late))
        first_late += num_own_late
    return passes


@dataclass(frozen=True, slots=True)
class PendingGroups:
    """A `antiphon.codec.protocol.PendingAudio`: an asynchronous copy to the host.

    Attributes:
        rows: slot of each result, in the order of the passes.
        download: results of all passes; ``None``: there was no pass.
    """

    slots: Sequence[int]
    rows: Sequence[int]
    download: Download | None

    @property
    def is_done(self) -> bool:
        return self.download is None or self.download.is_done

    def wait(self) -> None:
        if self.download is not None:
            self.download.wait()

    def result(self) -> dict[int, Samples]:
        parts: dict[int, list[Samples]] = {slot: [np.zeros(0, np.float32)] for slot in self.slots}
        if self.download is not None:
            for slot, made in zip(self.rows, self.download.wait().numpy(), strict=True):
                parts[slot].append(made[int(made[-2]) : int(made[-1])])
        return {slot: np.concatenate(each) for slot, each in parts.items()}


class MiMoAudioCodec:
    """An `antiphon.codec.protocol.ElasticDecoder`; a frame is a text id and a group of codes."""

    chunk_sizes = (PASS_GROUPS,)
    look_ahead_frames = 0
    group_frames = PASS_GROUPS

    def __init__(
        self,
        decoder: AudioDecoder,
        config: AudioTokenizerConfig,
        empty_id: int,
        *,
        is_batched: bool | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Wrap a decoder.

        Args:
            empty_id: text id of groups with speech.
            is_batched: whether a pass may have several rows; ``None``: only on a GPU.
            progress: callback run for every captured graph.
        """
        self._progress = progress
        self._is_batched = decoder.table.is_cuda if is_batched is None else is_batched
        self._decoder = decoder
        self._empty_id = empty_id
        self._num_codes = config.num_codes_used
        self._frame_size = 1 + config.group_frames * config.num_codes_used
        self._device = decoder.table.device
        self.sample_rate_hz = config.sample_rate_hz
        self.samples_per_frame = config.samples_per_group
        self.late_frames = decoder.num_late_ticks

    @torch.inference_mode()
    def open(self, num_slots: int) -> StageState:
        """Return fresh streams, with captured graphs."""
        device = self._device
        most = min(num_slots, _SIZES[-1]) if self._is_batched else 1
        sizes = (*(size for size in _SIZES if size < most), most)
        numbers = partial(torch.zeros, dtype=torch.int64, device=device)
        state = StageState(
            codec=self._decoder.open(num_slots + 1),
            frames=numbers(sizes[-1], PASS_GROUPS, self._frame_size),
            rows=numbers(sizes[-1], 1 + PASS_GROUPS),
            graphs=Graphs(device),
            sizes=sizes,
        )
        if state.graphs.is_enabled:
            state.rows[:, 0] = state.padding
            torch.cuda.synchronize(device)
            with exact_float32():
                shapes = [*product(reversed(sizes), (False, True))]
                for number, shape in enumerate(shapes, start=1):
                    state.graphs.capture(shape, partial(self._tick, state, *shape))
                    if self._progress is not None:
                        self._progress(number, len(shapes))
            state.graphs.settle()
        return state

    def on_stream(self, state: StageState) -> AbstractContextManager[object]:
        return state.graphs.on_stream()

    @torch.inference_mode()
    def reset(self, state: StageState, slot: int, conditioning: None = None) -> None:
        state.codec.reset(slot)

    def prime(self, state: StageState, slot: int, frames: NDArray[Any]) -> None:
        """Decode frames without returning their audio."""
        self.replay(state, slot, frames)

    @torch.inference_mode()
    def replay(
        self, state: StageState, slot: int, frames: NDArray[Any], num_ahead: int = 0
    ) -> None:
        frames = np.asarray(frames)
        self._run([_passes(slot, range(len(frames)))], upload(frames, self._device), state)

    @torch.inference_mode()
    def launch(
        self,
        chunks: Sequence[CodecChunk],
        frame_store: Tensor | NDArray[np.integer[Any]],
        state: StageState,
    ) -> PendingGroups:
        """Start to decode chunks; see the protocol."""
        num_kept = frame_store.shape[1]
        passes, places = [], list[int]()
        for each in chunks:
            stop = each.start + each.num_frames
            end = stop if each.end is None else min(stop, max(each.start, each.end))
            own = [each.slot * num_kept + number % num_kept for number in range(each.start, end)]
            if isinstance(frame_store, np.ndarray):  # only the groups that are read are uploaded
                own, sent = [*range(len(places), len(places) + len(own))], own
                places += sent
            first_late = 0 if each.end is None else max(0, each.start - each.end)
            passes.append(_passes(each.slot, own, stop - end, first_late))
        if isinstance(frame_store, np.ndarray):
            frames = upload(frame_store.reshape(-1, frame_store.shape[2])[places], self._device)
        else:
            frames = frame_store.flatten(0, 1)
        rows, made = self._run(passes, frames, state)
        whole = torch.cat(made) if len(made) > 1 else next(iter(made), None)
        download = None if whole is None else Download(whole)
        return PendingGroups([each.slot for each in chunks], rows, download)

    def close(self) -> None:
        """Do nothing: all memory is freed with the object."""

    def _run(
        self, passes: Sequence[Sequence[GroupPass]], frames: Tensor, state: StageState
    ) -> tuple[list[int], list[Tensor]]:
        """Run the first pass of every row, then the second, and so on; see `AudioDecoder.tick`.

        Returns:
            The slot of each result, and the results, of which the last is valid until the next
            pass.
        """
        if not frames.is_cuda:  # on the CPU a check is cheap, while a pass over text is not
            passes = [[each for each in row if self._counts(each, frames)] for row in passes]
        size, slots, made = state.sizes[-1], list[int](), list[Tensor]()
        for rank in zip_longest(*passes):
            for part in self._parted([each for each in rank if each is not None]):
                for some in (part[start : start + size] for start in range(0, len(part), size)):
                    if made:
                        made[-1] = made[-1].clone()  # the next pass overwrites it
                    with exact_float32():
                        made.append(self._pass(some, frames, state))
                    slots += [each.slot for each in some]
        return slots, made

    def _parted(self, rows: list[GroupPass]) -> Sequence[list[GroupPass]]:
        """Part the rows whose streams have left the decoder's layers, if it is worth a pass."""
        past = [each for each in rows if self._is_past(each)]
        if len(past) < min(_NUM_APART, len(rows)):
            return [rows]
        return [[each for each in rows if not self._is_past(each)], past]

    def _is_past(self, each: GroupPass) -> bool:
        return not each.places and each.first_late >= self._decoder.num_stretched

    def _counts(self, each: GroupPass, frames: Tensor) -> bool:
        """Return whether a pass over frames on the host has any audio."""
        ids = frames[:, 0].numpy()
        return each.num_late > 0 or any(ids[place] == self._empty_id for place in each.places)

    def _pass(self, passes: Sequence[GroupPass], frames: Tensor, state: StageState) -> Tensor:
        size = round_up(len(passes), state.sizes)
        shape = size, all(map(self._is_past, passes))
        written = np.zeros((size, 1 + 2 * PASS_GROUPS), np.int64)
        written[:, 0] = state.padding
        for row, each in enumerate(passes):
            written[row] = each.row()
        given = upload(written, self._device)
        rows, places = torch.split(given, [1 + PASS_GROUPS, PASS_GROUPS], dim=1)
        state.rows[:size].copy_(rows)
        if len(frames):
            state.frames[:size].copy_(frames[places])
        return state.graphs.run(shape, partial(self._tick, state, *shape))[: len(passes)]

    def _tick(self, state: StageState, size: int, is_past: bool) -> Tensor:
        slots, kinds, frames = state.rows[:size, 0], state.rows[:size, 1:], state.frames[:size]
        is_group = (kinds == _GROUP) & (frames[:, :, 0] == self._empty_id)
        codes = torch.unflatten(frames[:, :, 1:], 2, (-1, self._num_codes))
        flags = torch.stack((is_group, kinds == _LATE), dim=2)
        return self._decoder.tick(codes, state.codec, slots, flags, is_past=is_past)


def load_codec(context: LoadContext, *, is_batched: bool | None = None) -> MiMoAudioCodec:
    """Load the decoder from groups of codes to audio; raises ModelLoadError.

    Computation is in float32. On a GPU the layers are kernels, unless ``context.dtype`` is float32:
    their keys and values are float16, and factors of their products have 22 bits.

    Args:
        is_batched: whether a pass may have several rows; see `MiMoAudioCodec`.
    """
    model, path = load_config(context.checkpoint), tokenizer_path(context.checkpoint)
    config = load_tokenizer_config(path, model)
    empty_id = load_text_tokenizer(context.checkpoint, model.vocab_size).empty_id
    opened = open_weights(decoder_part(path, config), **weights_for(context, "codec", "float32"))
    with torch.inference_mode(), opened as weights:
        return MiMoAudioCodec(
            AudioDecoder.of(weights, config, is_exact=context.dtype == "float32"),
            config,
            empty_id,
            is_batched=False if context.is_deterministic else is_batched,
            progress=context.progress_of("codec's graphs"),
        )
