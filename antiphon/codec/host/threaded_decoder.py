"""A decoder on the host that works in a thread of its own, beside the model."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from antiphon.codec.protocol import PassDecoder, StreamingDecoder
from antiphon.contracts.types import Samples
from antiphon.engine.plan import CodecChunk
from antiphon.nn.cpu.threads import codec_pool


@dataclass(frozen=True, slots=True)
class _PendingAudio:
    """Chunks in decoding; see `antiphon.codec.protocol.PendingAudio`.

    Attributes:
        before: calls between the chunks before and these, which may have failed.
    """

    audio: Future[Mapping[int, Samples]]
    before: Sequence[Future[None]]

    @property
    def is_done(self) -> bool:
        return self.audio.done()

    def wait(self) -> None:
        wait([self.audio])

    def result(self) -> Mapping[int, Samples]:
        for call in self.before:
            call.result()
        return self.audio.result()


class HostDecoder(StreamingDecoder, Protocol):
    """A causal decoder on the host, such as `GroupedDecoder`."""

    def decode_row(self, frames: NDArray[Any], state: Any, slot: int) -> Samples:
        """Decode the next frames of one row; see `RowDecoder`."""


class ThreadedDecoder:
    """An `antiphon.codec.protocol.StreamingDecoder` around another.

    Calls are executed in their order. The model makes the next frame meanwhile.
    """

    def __init__(self, decoder: HostDecoder) -> None:
        self.decoder = decoder
        self._pool = codec_pool()
        self._calls: list[Future[None]] = []
        self.sample_rate_hz = decoder.sample_rate_hz
        self.samples_per_frame = decoder.samples_per_frame
        self.chunk_sizes = decoder.chunk_sizes
        self.look_ahead_frames = decoder.look_ahead_frames
        self.group_frames = decoder.group_frames
        self.pass_frames = decoder.pass_frames if isinstance(decoder, PassDecoder) else 1

    def open(self, num_slots: int) -> Any:
        return self._pool.submit(self.decoder.open, num_slots).result()

    def on_stream(self, state: Any) -> AbstractContextManager[object]:
        return nullcontext()

    def reset(self, state: Any, slot: int, conditioning: Any = None) -> None:
        self._call(partial(self.decoder.reset, state, slot, conditioning))

    def prime(self, state: Any, slot: int, frames: NDArray[Any]) -> None:
        self._call(partial(self.decoder.prime, state, slot, frames))

    def replay(self, state: Any, slot: int, frames: NDArray[Any], num_ahead: int = 0) -> None:
        self._call(partial(self.decoder.replay, state, slot, frames, num_ahead))

    def launch(self, chunks: Sequence[CodecChunk], frame_store: Any, state: Any) -> _PendingAudio:
        rows = {}
        for chunk in chunks:
            numbers = np.arange(chunk.start, chunk.start + chunk.num_frames)
            rows[chunk.slot] = np.asarray(frame_store[chunk.slot, numbers % frame_store.shape[1]])
        audio = self._pool.submit(self._decode, rows, state)
        before, self._calls = self._calls, []
        if any(chunk.start == 0 for chunk in chunks):
            wait([audio])  # first audio, which would be delivered after the model's next frame
        return _PendingAudio(audio, before)

    def close(self) -> None:
        """End the thread after what it is doing, and close the decoder."""
        self._pool.shutdown(cancel_futures=True)
        self.decoder.close()

    def _call(self, call: Callable[[], None]) -> None:
        self._calls.append(self._pool.submit(call))

    def _decode(self, rows: Mapping[int, NDArray[Any]], state: Any) -> Mapping[int, Samples]:
        return {slot: self.decoder.decode_row(frames, state, slot) for slot, frames in rows.items()}
