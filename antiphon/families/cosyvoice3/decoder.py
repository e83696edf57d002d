"""The decoder stage: speech tokens to samples, 25 tokens at a time, each computed once.

Audio of a group depends on the six tokens after it: three of the flow's look-ahead, and three of
the vocoder's. The flow's chunks end three tokens after a group.
"""

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.codec.pending import PendingDownloads, stored_frames
from antiphon.contracts.family import LoadContext
from antiphon.engine.plan import CodecChunk
from antiphon.families.cosyvoice3.checkpoint import flow_part, vocoder_part
from antiphon.families.cosyvoice3.config import MEL_FRAMES_PER_TOKEN, load_config
from antiphon.families.cosyvoice3.flow import MelFlow, Reference
from antiphon.families.cosyvoice3.flow_context import slots_that_fit
from antiphon.families.cosyvoice3.flow_passes import MelFlowPasses, alike
from antiphon.families.cosyvoice3.speech_rows import Due, PassInputs, SpeechRows, SpeechStream
from antiphon.families.cosyvoice3.stream_conv import StreamRows, StreamState
from antiphon.families.cosyvoice3.vocoder import LOOK_AHEAD_MEL_FRAMES, Vocoder
from antiphon.families.kit.loading import weights_for
from antiphon.nn import kernels
from antiphon.nn.device import resolve_dtype
from antiphon.nn.device_writes import Download, upload
from antiphon.nn.graphs import Graphs, round_up
from antiphon.nn.precision import exact_float32, tf32_products
from antiphon.nn.weights import Progress

_VOCODER_TOKENS = -(-LOOK_AHEAD_MEL_FRAMES // MEL_FRAMES_PER_TOKEN)
_SIZES = (1, 2, 4, 8, 16, 32)
"""Batch sizes in rows: of 64 streams on an H200, batches of 32 chunks make 17 % more than of 16."""
_REST = "decoder.rest"


class CosyVoice3Decoder:
    """An `antiphon.codec.protocol.BatchDecoder`; a frame is a speech token, ``[1]``.

    On a GPU, chunks of several streams form a batch, and all passes except those over reference
    audio are CUDA graphs; the batch changes a row by rounding at most. On the CPU a batch has one
    row.
    """

    def __init__(
        self,
        flow: MelFlow,
        vocoder: Vocoder,
        *,
        max_slots: int,
        is_batched: bool | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Wrap flow and vocoder.

        Args:
            is_batched: whether a batch may have several rows; ``None``: only on a GPU.
            progress: callback run for every captured graph.
        """
        self._flow, self._vocoder, self._device = flow, vocoder, flow.tokens.device
        if is_batched is None:
            is_batched = self._device.type == "cuda"
        self._sizes = _SIZES if is_batched else (1,)
        self.batch_chunks = self._sizes[-1]
        self._of_flow = tf32_products if flow.rounds_products else nullcontext
        self._progress = progress
        self.max_slots = max_slots
        self.sample_rate_hz = vocoder.config.sample_rate_hz
        self.samples_per_frame = MEL_FRAMES_PER_TOKEN * vocoder.config.samples_per_mel_frame
        self.group_frames = flow.config.chunk_tokens
        self.look_ahead_frames = flow.config.look_ahead_tokens + _VOCODER_TOKENS
        self.chunk_sizes = (self.group_frames,)
        self._pads = is_batched or self._device.type == "cuda"
        self._flow_passes = MelFlowPasses(flow, self.group_frames + _VOCODER_TOKENS, self._pads)
        # A stream with as many frames left as the look-ahead would not have ended.
        self._last_frames = MEL_FRAMES_PER_TOKEN * (self.group_frames + self.look_ahead_frames - 1)

    @torch.inference_mode()
    def open(self, num_slots: int) -> SpeechRows:
        """Return rows without streams, with captured graphs."""
        config, device = self._flow.config, self._device
        sizes = tuple(sorted({min(size, num_slots) for size in self._sizes}))
        most = sizes[-1]
        fresh = partial(PassInputs.fresh, config, num_rows=most, device=device)
        num_frames = max(MEL_FRAMES_PER_TOKEN * self._flow_passes.ahead, self._last_frames)
        state = SpeechRows(
            streams=[None] * num_slots,
            flow=self._flow.open(num_slots),
            vocoder=StreamRows(num_slots + 1),
            recorded=[None] * num_slots,
            graphs=Graphs(device),
            sizes=sizes,
            flow_inputs={width: fresh(num_tokens=width) for width in self._flow_passes.widths},
            mel=torch.zeros(most, num_frames, config.num_mels, device=device),
            voiced=torch.zeros(most, 3, dtype=torch.int64, device=device),
        )
        if state.graphs.is_enabled:
            torch.cuda.synchronize(device)
            self._capture(state)
            torch.cuda.synchronize(device)
        return state

    def on_stream(self, state: SpeechRows) -> AbstractContextManager[object]:
        return state.graphs.on_stream()

    @torch.inference_mode()
    def reset(
        self, state: SpeechRows, slot: int, conditioning: dict[str, NDArray[Any]] | None = None
    ) -> None:
        """Reset a row for a request with a voice; see `voices.reference_arrays`.

        Streams of one voice share its arrays on the device.
        """
        assert conditioning is not None, "its family conditions each request"
        tokens, mel, speaker = (conditioning[name] for name in ("tokens", "mel", "speaker"))
        parts = (np.ascontiguousarray(each).tobytes() for each in (tokens, mel, speaker))
        voice = hashlib.blake2b(b"".join(parts)).digest()
        known = (each.reference for each in state.streams if each and each.voice == voice)
        if (reference := next(known, None)) is None:
            kept = (tokens, mel.astype(np.float32), speaker.astype(np.float32))
            reference = Reference(*(upload(each, self._device) for each in kept))
        state.streams[slot] = SpeechStream(slot, reference, voice)

    def prime(self, state: SpeechRows, slot: int, frames: NDArray[Any]) -> None:
        raise AssertionError("the recording is in the conditioning")

    @torch.inference_mode()
    def replay(
        self, state: SpeechRows, slot: int, frames: NDArray[Any], num_ahead: int = 0
    ) -> None:
        tokens = upload(np.asarray(frames)[:, 0], self._device)
        stream, num_frames = state.stream(slot), len(frames) - num_ahead
        for start in range(0, num_frames, self.group_frames):
            size = min(self.group_frames, num_frames - start)
            window = tokens[start : start + size + self.look_ahead_frames]
            self._decode([self._due(stream, window, size)], state)

    @torch.inference_mode()
    def launch(
        self, chunks: Sequence[CodecChunk], frame_store: Any, state: SpeechRows
    ) -> PendingDownloads:
        """Start to decode chunks; see the protocol."""
        num_kept = frame_store.shape[1]
        read = [self._num_read(each) for each in chunks]
        places = np.zeros((len(chunks), max(read)), np.int64)
        for row, (chunk, size) in enumerate(zip(chunks, read, strict=True)):
            numbers = np.arange(chunk.start, chunk.start + size) % num_kept
            places[row, :size] = chunk.slot * num_kept + numbers
        tokens = stored_frames(frame_store, places, self._flow.tokens)[..., 0]
        dues = [
            self._due(state.stream(chunk.slot), window[:size], min(chunk.num_frames, size))
            for chunk, window, size in zip(chunks, tokens, read, strict=True)
        ]
        made = self._decode(dues, state)
        rows = [{slot: row for row, slot in enumerate(slots)} for slots, _ in made]
        downloads = [Download(samples) for _, samples in made]
        return PendingDownloads([*zip(rows, downloads, strict=True)])

    def close(self) -> None:
        """Do nothing: all memory is freed with the object."""

    def _num_read(self, chunk: CodecChunk) -> int:
        """Return the number of tokens in a chunk, including look-ahead."""
        size = chunk.num_frames + self.look_ahead_frames
        return size if chunk.end is None else min(size, chunk.end - chunk.start)

    def _due(self, stream: SpeechStream, tokens: Tensor, num_frames: int) -> Due:
        """Record that a group of a stream is due for decoding."""
        is_end = len(tokens) - num_frames < self.look_ahead_frames
        due = Due(stream, tokens, stream.num_decoded, num_frames, is_end, [])
        stream.num_tokens = due.first + len(tokens)
        stream.num_decoded += num_frames
        return due

    def _decode(self, dues: Sequence[Due], state: SpeechRows) -> list[tuple[list[int], Tensor]]:
        """Return slots and their samples, ``[len(slots), num_samples]``, of all due groups."""
        made = []
        with exact_float32():
            going_on = [each for each in dues if each.stream.rest is None]
            with self._of_flow():
                self._flow_passes.run(going_on, state)
            later = [each for each in going_on if not each.is_end]
            for group in alike(later, _is_first, state.sizes[-1]):
                made.append(([each.stream.slot for each in group], self._voice(group, state)))
            ending = [each for each in going_on if each.is_end]
            for group in alike(ending, _is_first, state.sizes[-1]):
                self._voice_end(group, state)
        for each in dues:
            rest = each.stream.rest
            if rest is not None:
                num_samples = each.num_frames * self.samples_per_frame
                made.append(([each.stream.slot], rest[None, :num_samples]))
                each.stream.rest = rest[num_samples:]
        return made

    def _voice(self, dues: Sequence[Due], state: SpeechRows) -> Tensor:
        """Return the samples of groups of continuing streams, ``[len(dues), num_samples]``."""
        is_first, size = _is_first(dues[0]), round_up(len(dues), state.sizes)
        self._tell(dues, size, state)
        function = partial(self._vocoder_pass, is_first, size, state)
        return state.graphs.run(("vocoder", is_first, size), function)[: len(dues)].clone()

    def _voice_end(self, dues: Sequence[Due], state: SpeechRows) -> None:
        """Decode the remainder of ending streams, of any length."""
        is_first, size = _is_first(dues[0]), round_up(len(dues), state.sizes)
        num_frames = self._tell(dues, size, state)
        width = self._last_frames if self._pads else num_frames
        function = partial(self._last_pass, is_first, size, width, state)
        samples = state.graphs.run(("vocoder's last", is_first, size), function)
        for due, row in zip(dues, samples, strict=False):
            due.stream.rest = row[: len(due.tokens) * self.samples_per_frame].clone()

    def _tell(self, dues: Sequence[Due], size: int, state: SpeechRows) -> int:
        """Fill the inputs of a vocoder pass; return the most mel frames of any stream."""
        lengths = [sum(map(len, each.mel)) for each in dues]
        numbers = [
            (due.stream.slot, due.stream.num_mel_frames, length)
            for due, length in zip(dues, lengths, strict=True)
        ]
        numbers += [(state.flow.num_slots, *numbers[0][1:])] * (size - len(dues))
        state.voiced[:size].copy_(upload(numbers, self._device))
        state.mel.zero_()
        for row, (due, length) in enumerate(zip(dues, lengths, strict=True)):
            torch.cat(due.mel, out=state.mel[row, :length])
            due.stream.num_mel_frames += length
        return max(lengths)

    def _samples(
        self, mel: Tensor, first_frames: Tensor, kept: StreamState, num_there: Tensor | None = None
    ) -> Tensor:
        """Return held-back samples followed by those of mel frames, ``[num_rows, num_samples]``.

        ``num_there`` is the number of mel frames of ending streams.
        """
        before = kept.pop(_REST, None)
        made = self._vocoder.decode(mel.transpose(1, 2), first_frames, kept, num_there)
        return made if before is None else torch.cat((before, made), dim=1)

    def _vocoder_pass(self, is_first: bool, size: int, state: SpeechRows) -> Tensor:
        slots, first_frames, _ = state.voiced[:size].unbind(1)
        kept = StreamState() if is_first else state.vocoder.take(slots)
        num_tokens = self._flow_passes.ahead if is_first else self.group_frames
        mel = state.mel[:size, : MEL_FRAMES_PER_TOKEN * num_tokens]
        samples = self._samples(mel, first_frames, kept)
        num_samples = self.group_frames * self.samples_per_frame
        kept[_REST] = samples[:, num_samples:].clone()
        state.vocoder.put(slots, kept)
        return samples[:, :num_samples]

    def _last_pass(self, is_first: bool, size: int, width: int, state: SpeechRows) -> Tensor:
        slots, first_frames, num_there = state.voiced[:size].unbind(1)
        kept = StreamState() if is_first else state.vocoder.take(slots)
        return self._samples(state.mel[:size, :width], first_frames, kept, num_there)

    def _capture(self, state: SpeechRows) -> None:
        """Capture passes after two warm-up passes; the next reset drops their states."""
        config, device = self._flow.config, self._device
        nothing = torch.zeros(0, dtype=torch.int64, device=device)
        mel = torch.zeros(0, config.num_mels, device=device)
        speaker = torch.zeros(self._flow.speaker.weight.shape[1], device=device)
        stream = SpeechStream(0, Reference(nothing, mel, speaker))
        num_tokens = self.group_frames + self.look_ahead_frames
        tokens = torch.zeros(num_tokens, dtype=torch.int64, device=device)
        with exact_float32():
            self._decode([self._due(stream, tokens, self.group_frames)], state)
            state.voiced.copy_(upload((state.flow.num_slots, 0, self._last_frames), device))
            for number, size in enumerate(reversed(state.sizes), start=1):
                with self._of_flow():
                    self._flow_passes.capture(size, state)
                for is_first in (True, False):
                    function = partial(self._vocoder_pass, is_first, size, state)
                    state.graphs.capture(("vocoder", is_first, size), function)
                    last = partial(self._last_pass, is_first, size, self._last_frames, state)
                    state.graphs.capture(("vocoder's last", is_first, size), last)
                if self._progress is not None:
                    self._progress(number, len(state.sizes))
        state.graphs.settle()


def _is_first(due: Due) -> bool:
    """Return whether the vocoder has not decoded any part of the stream."""
    return not due.stream.num_mel_frames


def load_decoder(context: LoadContext, *, is_batched: bool | None = None) -> CosyVoice3Decoder:
    """Load the decoder from speech tokens to 24 kHz audio; raises ModelLoadError.

    Computation is in float32, except that attention on a GPU keeps keys and values in float16. If
    float32 was not requested, the flow's matrix products on a GPU are float16 in the transformer's
    layers and TF32 elsewhere, and factors in the vocoder's blocks have 22 bits.

    Args:
        is_batched: whether a batch may have several rows; see `CosyVoice3Decoder`.
    """
    path, how = context.checkpoint, weights_for(context, dtype="float32")
    config, like = load_config(path), how["like"]
    is_float32 = resolve_dtype(context.dtype, like.device) == torch.float32
    rounds = not (is_float32 or context.is_deterministic)
    is_fused = rounds and kernels.run_on(like)
    with torch.inference_mode(), flow_part(path, config.flow).open(**how) as weights:
        flow = MelFlow.of(weights, config.flow, rounds_products=rounds, is_fused=is_fused)
    with torch.inference_mode(), vocoder_part(path, config.vocoder).open(**how) as weights:
        vocoder = Vocoder.of(weights, config.vocoder, splits_products=rounds)
    return CosyVoice3Decoder(
        flow,
        vocoder,
        max_slots=slots_that_fit(context, config.flow, like.device),
        is_batched=False if context.is_deterministic else is_batched,
        progress=context.progress_of("decoder's graphs"),
    )
