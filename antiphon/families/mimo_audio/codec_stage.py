"""Decoder stage of the audio tokenizer, which reads groups from the language model's buffers.

Groups are decoded four at a time, counted from the first frame. A pass is the same for text, speech
and the end of a stream, which takes as many steps as its passes. On a GPU the next groups of all
rows form one pass in a CUDA graph; the batch changes a row by rounding at most. On the CPU rows are
decoded one by one.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Samples
from antiphon.engine.plan import CodecChunk
from antiphon.engine.runner import row_buckets
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
_MAX_ROWS = 32
"""Maximum rows of a pass; on a GPU without kernels a pass copies each row's KV cache, 10 MB."""


@dataclass(frozen=True, slots=True)
class StageState:
    """The streams of one batch, and the input buffers of a pass.

    Attributes:
        codec: state of all slots, and of one more for padding.
        frames: text id and codes of each row's groups, int64 ``[n, PASS_GROUPS, frame_size]``,
            with rows for the largest pass.
        rows: slot and place contents of each row, int64 ``[n, 1 + PASS_GROUPS]``.
        graphs: CUDA graphs by number of rows.
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


@dataclass(slots=True, eq=False)
class GroupPasses:
    """Passes of a row in a launch.

    Attributes:
        slot: slot of the row.
        passes: passes over the row's groups.
        audible: indices of audible passes among all passes of the launch.
    """

    slot: int
    passes: list["GroupPass"]
    audible: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, slot: int, places: Sequence[int], num_late: int = 0) -> "GroupPasses":
        """Split groups, and those past the end, into passes.

        Args:
            slot: slot of the row.
            places: indices of the groups in the launch.
            num_late: number of groups past the end.
        """
        total = len(places) + num_late
        passes = [
            GroupPass(places[start : start + PASS_GROUPS], max(0, min(PASS_GROUPS, total - start)))
            for start in range(0, total, PASS_GROUPS)
        ]
        return cls(slot, passes)


@dataclass(frozen=True, slots=True)
class GroupPass:
    """One pass over a row.

    Attributes:
        places: indices of the groups in the launch.
        num_groups: number of groups, including those past the end.
    """

    places: Sequence[int]
    num_groups: int

    def row(self) -> list[int]:
        """Return the contents of each place, then the group indices in the launch."""
        num_late = self.num_groups - len(self.places)
        kinds = [_GROUP] * len(self.places) + [_LATE] * num_late
        rest = PASS_GROUPS - len(kinds)
        return [*kinds, *[_NOTHING] * rest, *self.places, *[0] * (num_late + rest)]


@dataclass(frozen=True, slots=True)
class PendingGroups:
    """A `antiphon.codec.protocol.PendingAudio`: an asynchronous copy to the host.

    Attributes:
        rows: rows of the launch.
        download: results of all passes; ``None``: there was no pass.
    """

    rows: Sequence[GroupPasses]
    download: Download | None

    @property
    def is_done(self) -> bool:
        return self.download is None or self.download.is_done

    def wait(self) -> None:
        if self.download is not None:
            self.download.wait()

    def result(self) -> dict[int, Samples]:
        passes = np.zeros((0, 0), np.float32)
        if self.download is not None:
            passes = self.download.wait().numpy()
        return {each.slot: _audible(passes, each.audible) for each in self.rows}


class MiMoAudioCodec:
    """An `antiphon.codec.protocol.ElasticDecoder`; a frame is a text id and a group of codes."""

    is_elastic: Literal[True] = True
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
        uses_graphs: bool = True,
        progress: Progress | None = None,
    ) -> None:
        """Wrap a decoder.

        Args:
            decoder: loaded decoder.
            config: configuration of the tokenizer.
            empty_id: text id of groups with speech.
            is_batched: whether a pass may have several rows; ``None``: only on a GPU.
            uses_graphs: whether passes are CUDA graphs on a GPU.
            progress: callback run for every captured graph.
        """
        self._uses_graphs = uses_graphs
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
        sizes = row_buckets(min(num_slots, _MAX_ROWS)) if self._is_batched else (1,)
        state = StageState(
            codec=self._decoder.open(num_slots + 1),
            frames=torch.zeros(
                (sizes[-1], PASS_GROUPS, self._frame_size), dtype=torch.int64, device=device
            ),
            rows=torch.zeros(sizes[-1], 1 + PASS_GROUPS, dtype=torch.int64, device=device),
            graphs=Graphs(device, is_enabled=self._uses_graphs),
            sizes=sizes,
        )
        if state.graphs.is_enabled:
            state.rows[:, 0] = state.padding
            torch.cuda.synchronize(device)
            with exact_float32():
                for number, size in enumerate(reversed(sizes), start=1):
                    state.graphs.capture(size, partial(self._tick, state, size))
                    if self._progress is not None:
                        self._progress(number, len(sizes))
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
        rows = [GroupPasses.of(slot, range(len(frames)))]
        self._run(rows, upload(frames, self._device), state)

    @torch.inference_mode()
    def launch(
        self,
        chunks: Sequence[CodecChunk],
        frame_store: Tensor | NDArray[np.integer[Any]],
        state: StageState,
    ) -> PendingGroups:
        """Start to decode chunks; see the protocol."""
        num_kept = frame_store.shape[1]
        rows, places = [], list[int]()
        for each in chunks:
            stop = each.start + each.num_frames
            end = stop if each.end is None else min(stop, max(each.start, each.end))
            own = [each.slot * num_kept + number % num_kept for number in range(each.start, end)]
            if isinstance(frame_store, np.ndarray):  # only the groups that are read are uploaded
                own, sent = [*range(len(places), len(places) + len(own))], own
                places += sent
            rows.append(GroupPasses.of(each.slot, own, stop - end))
        if isinstance(frame_store, np.ndarray):
            frames = upload(frame_store.reshape(-1, frame_store.shape[2])[places], self._device)
        else:
            frames = frame_store.flatten(0, 1)
        made = self._run(rows, frames, state)
        if len(made) == 1:
            return PendingGroups(rows, Download(made[0]))
        return PendingGroups(rows, Download(torch.cat(made)) if made else None)

    def close(self) -> None:
        """Do nothing: all memory is freed with the object."""

    def _run(self, rows: Sequence[GroupPasses], frames: Tensor, state: StageState) -> list[Tensor]:
        """Run the first pass of every row, then the second, and so on; see `AudioDecoder.tick`.

        The last result is valid until the next pass.
        """
        if not frames.is_cuda:  # on the CPU a check is cheap, while a pass over text is not
            for each in rows:
                each.passes = [part for part in each.passes if self._counts(part, frames)]
        due: list[list[tuple[GroupPasses, GroupPass]]] = []
        for number in range(max((len(each.passes) for each in rows), default=0)):
            part = [(each, each.passes[number]) for each in rows if number < len(each.passes)]
            size = state.sizes[-1]
            due += [part[start : start + size] for start in range(0, len(part), size)]
        made: list[Tensor] = []
        num_made = 0
        for part in due:
            if made:
                made[-1] = made[-1].clone()  # the next pass overwrites it
            with exact_float32():
                made.append(self._pass([(each.slot, one) for each, one in part], frames, state))
            for place, (each, _) in enumerate(part, start=num_made):
                each.audible.append(place)
            num_made += len(part)
        return made

    def _counts(self, part: GroupPass, frames: Tensor) -> bool:
        """Return whether a pass over frames on the host has any audio."""
        is_late = part.num_groups > len(part.places)
        ids = frames[:, 0].numpy()
        return is_late or any(ids[each] == self._empty_id for each in part.places)

    def _pass(
        self, passes: Sequence[tuple[int, GroupPass]], frames: Tensor, state: StageState
    ) -> Tensor:
        """Run one pass over several slots."""
        size = round_up(len(passes), state.sizes)
        written = np.zeros((size, 1 + 2 * PASS_GROUPS), np.int64)
        written[:, 0] = state.padding
        for row, (slot, each) in enumerate(passes):
            written[row] = (slot, *each.row())
        given = upload(written, self._device)
        rows, places = torch.split(given, [1 + PASS_GROUPS, PASS_GROUPS], dim=1)
        state.rows[:size].copy_(rows)
        if len(frames):
            state.frames[:size].copy_(frames[places])
        return state.graphs.run(size, partial(self._tick, state, size))[: len(passes)]

    def _tick(self, state: StageState, size: int) -> Tensor:
        slots, kinds, frames = state.rows[:size, 0], state.rows[:size, 1:], state.frames[:size]
        is_group = (kinds == _GROUP) & (frames[:, :, 0] == self._empty_id)
        codes = torch.unflatten(frames[:, :, 1:], 2, (-1, self._num_codes))
        flags = torch.stack((is_group, kinds == _LATE), dim=2)
        return self._decoder.tick(codes, state.codec, slots, flags)


def load_codec(
    context: LoadContext, *, is_batched: bool | None = None, uses_graphs: bool = True
) -> MiMoAudioCodec:
    """Load the decoder from groups of codes to audio.

    Computation is in float32. On a GPU the layers are kernels, unless ``context.dtype`` is float32:
    their keys and values are float16, and factors of their products have 22 bits.

    Args:
        context: checkpoint, device and settings of the stage.
        is_batched: whether a pass may have several rows; see `MiMoAudioCodec`.
        uses_graphs: whether passes are CUDA graphs on a GPU.

    Raises:
        ModelLoadError: the audio tokenizer is missing or cannot be served.
    """
    model = load_config(context.checkpoint)
    path = tokenizer_path(context.checkpoint)
    config = load_tokenizer_config(path, model)
    empty_id = load_text_tokenizer(context.checkpoint, model.vocab_size).empty_id
    opened = open_weights(decoder_part(path, config), **weights_for(context, "codec", "float32"))
    with torch.inference_mode(), opened as weights:
        return MiMoAudioCodec(
            AudioDecoder.of(weights, config, is_exact=context.dtype == "float32"),
            config,
            empty_id,
            is_batched=False if context.is_deterministic else is_batched,
            uses_graphs=uses_graphs,
            progress=context.progress_of("codec's graphs"),
        )


def _audible(passes: Samples, places: Sequence[int]) -> Samples:
    """Return the audible samples of a row's passes."""
    parts = [np.zeros(0, np.float32)]
    parts += [passes[each, int(passes[each, -2]) : int(passes[each, -1])] for each in places]
    return np.concatenate(parts)
