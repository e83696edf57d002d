"""Decoder state of streams: counters on the host, and tensors of all slots."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from antiphon.families.cosyvoice3.config import MEL_FRAMES_PER_TOKEN, MelFlowConfig
from antiphon.families.cosyvoice3.flow import MelFlowRows, Reference
from antiphon.families.cosyvoice3.flow_context import ChunkPass
from antiphon.families.cosyvoice3.stream_conv import StreamRows
from antiphon.nn.graphs import Graphs


@dataclass(slots=True, eq=False)
class SpeechStream:
    """Progress of a stream.

    Attributes:
        voice: key of ``reference``; equal for all streams with the same conditioning.
        num_tokens: tokens received, including look-ahead.
        num_in_chunks: tokens converted to mel frames.
        num_decoded: tokens whose audio was returned.
        rest: samples of an ended stream that have not been returned; ``None``: the stream
            continues.
    """

    slot: int
    reference: Reference
    voice: bytes = b""
    num_tokens: int = 0
    num_in_chunks: int = 0
    num_decoded: int = 0
    num_mel_frames: int = 0
    rest: Tensor | None = None


@dataclass(frozen=True, slots=True)
class PassInputs:
    """Input buffers of flow passes of one width, with rows for the largest batch.

    Attributes:
        tokens: tokens as in `MelFlow.go_on`.
        mel: mel frames as in `MelFlow.go_on`.
        passes: `ChunkPass` of each row, int64 ``[n, 5]``.
    """

    tokens: Tensor
    mel: Tensor
    passes: Tensor

    @classmethod
    def fresh(
        cls, config: MelFlowConfig, num_tokens: int, num_rows: int, device: torch.device
    ) -> "PassInputs":
        """Return zeroed buffers."""
        width, counts = num_tokens + config.look_ahead_tokens, len(ChunkPass._fields)
        frames = (MEL_FRAMES_PER_TOKEN * num_tokens, config.num_mels)
        integers = partial(torch.zeros, dtype=torch.int64, device=device)
        mel = torch.zeros(num_rows, *frames, device=device)
        return cls(integers(num_rows, width), mel, integers(num_rows, counts))


@dataclass(frozen=True, slots=True)
class SpeechRows:
    """The streams of all slots, and the input buffers of the graphs.

    Attributes:
        streams: stream of each slot; ``None`` in unused slots.
        vocoder: vocoder state and held-back samples of all slots, with a row for padding.
        recorded: voice of the last pass over a reference in each slot; ``None``: no such pass.
        graphs: graphs of flow and vocoder passes, by kind and number of rows.
        sizes: captured numbers of rows, ascending.
        mel: input of a vocoder pass, f32 ``[n, num_frames, num_mels]``.
        voiced: slot, number of the first mel frame and number of mel frames of each row of a
            vocoder pass, int64 ``[n, 3]``.
    """

    streams: list[SpeechStream | None]
    flow: MelFlowRows
    vocoder: StreamRows
    recorded: list[bytes | None]
    graphs: Graphs
    sizes: tuple[int, ...]
    flow_inputs: Mapping[int, PassInputs]
    mel: Tensor
    voiced: Tensor

    def stream(self, slot: int) -> SpeechStream:
        """Return the stream of a slot; the slot must have been reset."""
        stream = self.streams[slot]
        assert stream is not None, "a row is reset before it is decoded"
        return stream


@dataclass(slots=True, eq=False)
class Due:
    """A group of tokens due for decoding.

    Attributes:
        tokens: tokens of the group and its look-ahead, int64 ``[n]``.
        first: number of the first token.
        num_frames: number of tokens without the look-ahead.
        is_end: whether the stream ends with these tokens.
        mel: mel frames computed so far, ``[num_frames, num_mels]`` each.
    """

    stream: SpeechStream
    tokens: Tensor
    first: int
    num_frames: int
    is_end: bool
    mel: list[Tensor]
