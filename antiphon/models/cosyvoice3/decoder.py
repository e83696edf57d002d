"""The decoder stage: speech tokens to samples, 25 tokens at a time, each computed once.

Audio of a group depends on six tokens after it: three that the flow looks ahead, and three whose
mel frames the vocoder does. The flow's chunks end three tokens after a group does.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.plan import CodecChunk
from antiphon.models.cosyvoice3.config import MEL_FRAMES_PER_TOKEN
from antiphon.models.cosyvoice3.flow import MelFlow, MelFlowState, Reference
from antiphon.models.cosyvoice3.vocoder import LOOK_AHEAD_MEL_FRAMES, Vocoder
from antiphon.nn.host_device import Download, upload
from antiphon.nn.precision import exact_float32
from antiphon.nn.stream_conv import StreamState
from antiphon.types import Samples

_VOCODER_TOKENS = -(-LOOK_AHEAD_MEL_FRAMES // MEL_FRAMES_PER_TOKEN)


@dataclass(slots=True, eq=False)
class SpeechStream:
    """A stream in a row.

    Attributes:
        flow: state of the flow; ``None`` after its end.
        vocoder: state of the vocoder.
        num_tokens: that have been taken in, of which the last few may be look-ahead.
        num_decoded: tokens whose audio was returned.
        num_mel_frames: that the vocoder was given.
        is_ended: whether all that there is has been made.
        samples: that are made and were not returned, ``[num_samples]``.
    """

    flow: MelFlowState | None
    vocoder: StreamState
    samples: Tensor
    num_tokens: int = 0
    num_decoded: int = 0
    num_mel_frames: int = 0
    is_ended: bool = False


@dataclass(slots=True)
class SpeechRows:
    """The streams of all slots; ``None`` where none has begun."""

    streams: list[SpeechStream | None]


@dataclass(frozen=True, slots=True)
class PendingSpeech:
    """A `antiphon.codec.protocol.PendingAudio`: copies to the host under way, by slot."""

    downloads: dict[int, Download]

    @property
    def is_done(self) -> bool:
        return all(each.is_done for each in self.downloads.values())

    def wait(self) -> None:
        for each in self.downloads.values():
            each.wait()

    def result(self) -> dict[int, Samples]:
        # A view would keep the pinned memory as long.
        return {slot: each.wait().numpy().copy() for slot, each in self.downloads.items()}


class CosyVoice3Decoder:
    """An `antiphon.codec.protocol.StreamingDecoder`; a frame is a speech token, ``[1]``.

    Streams are computed one by one, so that none depends on its company. All of a stream is in its
    row: a chunk costs the same wherever in the stream it is.
    """

    def __init__(
        self, flow: MelFlow, vocoder: Vocoder, *, sample_rate_hz: int, samples_per_frame: int
    ) -> None:
        self._flow = flow
        self._vocoder = vocoder
        self._device = flow.tokens.device
        self.sample_rate_hz = sample_rate_hz
        self.samples_per_frame = samples_per_frame
        self.group_frames = flow.config.chunk_tokens
        self.look_ahead_frames = flow.config.look_ahead_tokens + _VOCODER_TOKENS
        self.chunk_sizes = (self.group_frames,)

    def open(self, num_slots: int) -> SpeechRows:
        return SpeechRows([None] * num_slots)

    def on_stream(self, state: SpeechRows) -> AbstractContextManager[object]:
        device = self._device
        return torch.cuda.device(device) if device.type == "cuda" else nullcontext()

    @torch.inference_mode()
    def reset(
        self, state: SpeechRows, slot: int, conditioning: dict[str, NDArray[Any]] | None = None
    ) -> None:
        """Make a row fresh for a request of a voice; see `reference_arrays`."""
        assert conditioning is not None, "its family conditions each request"
        state.streams[slot] = None  # its memory is free before the next one's is taken
        reference = Reference(
            tokens=upload(conditioning["tokens"], self._device),
            mel=upload(conditioning["mel"].astype(np.float32), self._device),
            speaker=upload(conditioning["speaker"].astype(np.float32), self._device),
        )
        samples = torch.zeros(0, device=self._device)
        state.streams[slot] = SpeechStream(self._flow.open(reference), StreamState(), samples)

    def prime(self, state: SpeechRows, slot: int, frames: NDArray[Any]) -> None:
        raise AssertionError("the recording is in the conditioning")

    def replay(
        self, state: SpeechRows, slot: int, frames: NDArray[Any], num_ahead: int = 0
    ) -> None:
        tokens = upload(np.asarray(frames)[:, 0], self._device)
        self._decode(tokens, len(frames) - num_ahead, _stream(state, slot))

    def launch(
        self, chunks: Sequence[CodecChunk], frame_store: Any, state: SpeechRows
    ) -> PendingSpeech:
        downloads = {}
        for each in chunks:
            read_to = each.start + each.num_frames + self.look_ahead_frames
            if each.end is not None:
                read_to = min(read_to, each.end)
            num_frames = min(each.num_frames, read_to - each.start)
            places = np.arange(each.start, read_to) % frame_store.shape[1]
            if isinstance(frame_store, Tensor):
                tokens = frame_store[each.slot, upload(places, self._device), 0]
            else:
                tokens = upload(frame_store[each.slot, places, 0], self._device)
            downloads[each.slot] = Download(
                self._decode(tokens, num_frames, _stream(state, each.slot))
            )
        return PendingSpeech(downloads)

    def close(self) -> None:
        """Nothing to free that does not go with it."""

    @torch.inference_mode()
    def _decode(self, tokens: Tensor, num_frames: int, stream: SpeechStream) -> Tensor:
        """Return the samples of the next frames, ``[num_frames * samples_per_frame]``.

        Args:
            tokens: of these frames and of their look-ahead, of which there is less at the end.
            num_frames: without the look-ahead.
            stream: of the row.
        """
        parts = []
        for start in range(0, num_frames, self.group_frames):
            size = min(self.group_frames, num_frames - start)
            window = tokens[start : start + size + self.look_ahead_frames]
            with exact_float32():
                parts.append(self._decode_group(window, size, stream))
        return torch.cat(parts) if parts else stream.samples[:0]

    def _decode_group(self, tokens: Tensor, num_frames: int, stream: SpeechStream) -> Tensor:
        new = tokens[stream.num_tokens - stream.num_decoded :]
        stream.num_tokens += len(new)
        stream.num_decoded += num_frames
        is_end = stream.num_tokens - stream.num_decoded < self.look_ahead_frames
        if not stream.is_ended:
            self._make(new, stream, is_end=is_end)
        num_samples = num_frames * self.samples_per_frame
        samples, rest = stream.samples[:num_samples], stream.samples[num_samples:]
        stream.samples = rest.clone()
        return samples

    def _make(self, tokens: Tensor, stream: SpeechStream, *, is_end: bool) -> None:
        assert stream.flow is not None, "it has not ended"
        ahead = self.group_frames + _VOCODER_TOKENS
        mel = self._flow.decode(tokens, stream.flow, ahead, is_end=is_end)
        first_frame = stream.num_mel_frames
        made = self._vocoder.decode(mel.T[None], first_frame, stream.vocoder, is_end=is_end)
        stream.num_mel_frames += len(mel)
        stream.samples = torch.cat((stream.samples, made))
        stream.is_ended = is_end
        if is_end:  # what is kept of the voice takes the most room; a row waits for its next stream
            stream.flow, stream.vocoder = None, StreamState()


def _stream(state: SpeechRows, slot: int) -> SpeechStream:
    stream = state.streams[slot]
    assert stream is not None, "a row is reset before it is decoded"
    return stream
