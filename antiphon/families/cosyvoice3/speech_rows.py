"""What the decoder keeps of its streams: numbers on the host, and tensors of all slots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from antiphon.contracts.types import Samples
from antiphon.families.cosyvoice3.config import MEL_FRAMES_PER_TOKEN, MelFlowConfig
from antiphon.families.cosyvoice3.flow import MelFlowRows, Reference
from antiphon.families.cosyvoice3.flow_context import ChunkPass
from antiphon.nn.graphs import Graphs
from antiphon.nn.host_device import Download
from antiphon.nn.stream_conv import StreamRows


@dataclass(slots=True, eq=False)
class SpeechStream:
    """How far a stream has come.

    Attributes:
        slot: that it is in.
        reference: what it is conditioned on.
        voice: names that; the same for all streams that are conditioned alike.
        num_tokens: that have been taken in, of which the last few may be look-ahead.
        num_in_chunks: tokens that the flow has made mel frames of.
        num_decoded: tokens whose audio was returned.
        num_mel_frames: that the vocoder was given.
        rest: of a stream all of which has been made, samples that were not returned; ``None``: it
            goes on.
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
    """Buffers of passes over so many tokens, for as many rows as the largest has.

    Attributes:
        tokens: see `MelFlow.go_on`.
        mel: likewise.
        passes: `ChunkPass.numbers` of each, int64 ``[n, 5]``.
    """

    tokens: Tensor
    mel: Tensor
    passes: Tensor

    @classmethod
    def fresh(
        cls, config: MelFlowConfig, num_tokens: int, num_rows: int, device: torch.device
    ) -> "PassInputs":
        """Return buffers of zeros."""
        width, counts = num_tokens + config.look_ahead_tokens, ChunkPass.NUM_NUMBERS
        mel = torch.zeros(
            num_rows, MEL_FRAMES_PER_TOKEN * num_tokens, config.num_mels, device=device
        )
        return cls(
            tokens=torch.zeros(num_rows, width, dtype=torch.int64, device=device),
            mel=mel,
            passes=torch.zeros(num_rows, counts, dtype=torch.int64, device=device),
        )


@dataclass(frozen=True, slots=True)
class SpeechRows:
    """The streams of all slots, and the buffers that graphs read.

    Attributes:
        streams: of each slot; ``None`` where none has begun.
        flow: what the flow keeps of them.
        vocoder: likewise, and samples that were not returned; with a row for padding.
        recorded: voice over whose recording a slot's last pass of its own was; ``None``: none.
        graphs: of passes of flow and vocoder, by what they are and numbers of rows.
        sizes: these numbers, ascending.
        flow_inputs: of passes of the flow, by tokens that they are over.
        mel: of a pass of the vocoder, f32 ``[n, num_frames, num_mels]``.
        voiced: its slots, the numbers of their first mel frames, and how many there are, int64
            ``[n, 3]``.
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

    @classmethod
    def fresh(
        cls,
        config: MelFlowConfig,
        flow: MelFlowRows,
        graphs: Graphs,
        sizes: tuple[int, ...],
        widths: Sequence[int],
        num_frames: int,
    ) -> "SpeechRows":
        """Return rows without streams.

        Args:
            config: of the flow.
            flow: what it keeps of them.
            graphs: without any.
            sizes: numbers of rows.
            widths: tokens of the flow's passes that graphs may hold.
            num_frames: of the vocoder's longest pass of a graph.
        """
        device, most, num_slots = flow.speakers.device, sizes[-1], flow.num_slots
        return cls(
            streams=[None] * num_slots,
            flow=flow,
            vocoder=StreamRows(num_slots + 1),
            recorded=[None] * num_slots,
            graphs=graphs,
            sizes=sizes,
            flow_inputs={width: PassInputs.fresh(config, width, most, device) for width in widths},
            mel=torch.zeros(most, num_frames, config.num_mels, device=device),
            voiced=torch.zeros(most, 3, dtype=torch.int64, device=device),
        )

    def stream(self, slot: int) -> SpeechStream:
        """Return the stream of a slot that has been reset."""
        stream = self.streams[slot]
        assert stream is not None, "a row is reset before it is decoded"
        return stream


@dataclass(slots=True, eq=False)
class Due:
    """A group of tokens that becomes audio now.

    Attributes:
        stream: of the row.
        tokens: of the group and its look-ahead, int64 ``[n]``.
        first: number of the first of them.
        num_frames: tokens without the look-ahead.
        is_end: whether no tokens follow.
        mel: made of it so far, ``[num_frames, num_mels]`` each.
    """

    stream: SpeechStream
    tokens: Tensor
    first: int
    num_frames: int
    is_end: bool
    mel: list[Tensor]


@dataclass(frozen=True, slots=True)
class PendingSpeech:
    """An `antiphon.codec.protocol.PendingAudio`: copies to the host under way.

    Attributes:
        downloads: slots, and the samples of each, ``[len(slots), num_samples]``.
    """

    downloads: list[tuple[list[int], Download]]

    @property
    def is_done(self) -> bool:
        return all(each.is_done for _, each in self.downloads)

    def wait(self) -> None:
        for _, each in self.downloads:
            each.wait()

    def result(self) -> dict[int, Samples]:
        chunks: dict[int, Samples] = {}
        for slots, download in self.downloads:
            samples = download.wait().numpy()
            # A view would keep the pinned memory of all of them as long.
            chunks.update((slot, np.copy(samples[row])) for row, slot in enumerate(slots))
        return chunks
