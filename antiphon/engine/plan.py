"""What crosses between scheduler and runner in one step.

On the device a step does, in this order: releases, starts, appends, copies of blocks, prefills, one
frame for every planned slot, then the decoding of chunks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import PositionStates, Samples

FRAME_STORE_FRAMES = 64
"""Frames of a slot kept for its decoder on the device: frame k is at ``k % FRAME_STORE_FRAMES``."""


@dataclass(frozen=True, slots=True)
class CacheShape:
    """What a runner with paged keys and values has room for.

    Attributes:
        num_blocks: all blocks that may be given out: 0 to ``num_blocks - 1``.
        block_positions: positions that a block holds.
        max_positions: of one request, prompt and frames together.
        replayed_positions: of frames made before a preemption, that a step may compute again;
            ``None``: as many as of prompts. A runner that does so exactly does it frame by frame.
        copies_blocks: whether it takes `BlockCopy`: what follows on copied positions is then the
            same, to the bit, as what follows on computed ones.
    """

    num_blocks: int
    block_positions: int
    max_positions: int
    replayed_positions: int | None = None
    copies_blocks: bool = False


@dataclass(frozen=True, slots=True)
class CodecShape:
    """What a runner that decodes too makes of frames.

    Attributes:
        samples_per_frame: that a frame becomes.
        sample_rate_hz: of the samples.
        chunk_sizes: frames that one `CodecChunk` may have, ascending multiples of ``group_frames``.
        look_ahead_frames: see `antiphon.codec.protocol.StreamingDecoder`.
        group_frames: see there.
        has_upstream: whether its frames arrive as pieces from the stage before, one by one, so that
            a step only takes them in; the last piece has no frame.
        late_frames: if a frame's audio may come with later chunks, or be none: frames past the end
            that chunks reach to; see `antiphon.codec.protocol.ElasticDecoder`.
    """

    samples_per_frame: int
    sample_rate_hz: int
    chunk_sizes: tuple[int, ...]
    look_ahead_frames: int = 0
    group_frames: int = 1
    has_upstream: bool = False
    late_frames: int = 0

    @property
    def frame_s(self) -> float:
        """How long a frame sounds."""
        return self.samples_per_frame / self.sample_rate_hz

    def up_to(self, num_frames: int | None) -> "CodecShape":
        """Return it without chunks of more frames, but for its smallest; ``None``: with all."""
        if num_frames is None:
            return self
        smallest, *others = self.chunk_sizes
        sizes = (smallest, *(size for size in others if size <= num_frames))
        return replace(self, chunk_sizes=sizes)

    @property
    def is_causal(self) -> bool:
        """Whether a frame's audio depends on no frame after it, nor on where the request ends."""
        return self.look_ahead_frames == 0 and self.group_frames == 1 and not self.is_elastic

    @property
    def is_elastic(self) -> bool:
        """Whether a frame's audio may come with later chunks, or be none."""
        return self.late_frames > 0

    @property
    def held_frames(self) -> int:
        """Frames that are in no chunk before a request has ended.

        Of an elastic decoder one: whoever was given all frames of a request has all of its audio.
        """
        return max(self.look_ahead_frames, self.is_elastic)


@dataclass(frozen=True, slots=True)
class Start:
    """A request enters a slot, or comes back to one after it was preempted.

    Attributes:
        slot: which begins with an empty table of blocks.
        prompt: of the request.
        frames: what it had made before it lost its slot, in order; the model goes on after them.
            Pieces of text that had arrived before follow as appends in the same plan.
        num_frames_decoded: how many of ``frames`` have become audio already: a decoder is given
            these by `CodecReplay`, and finds the others in the frame store again.
    """

    slot: int
    prompt: Prompt
    frames: tuple[Any, ...] = ()
    num_frames_decoded: int = 0


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """Copy a block: its first positions are what a prompt begins with, the others are overwritten.

    Attributes:
        source: a cached block, which another request may be given in the same plan.
        target: of the request.
    """

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Append:
    """More text for the request in a slot."""

    slot: int
    piece: Piece


@dataclass(frozen=True, slots=True)
class Prefill:
    """Compute keys and values of positions ``start`` to ``end - 1`` of a slot.

    The positions before ``start`` are there: from earlier steps, or in blocks shared with another
    request. A prompt is parted between blocks, so that how it is parted does not matter, not even
    by rounding. In all, ``prompt.num_positions + len(Start.frames)`` positions are there before the
    slot makes a frame; frame number k is made by the step whose input sits at position
    ``prompt.num_positions + k``, which that step computes itself.
    """

    slot: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CodecReplay:
    """Decode frames ``start`` to ``end - 1`` of ``Start.frames`` again, whose audio is not used.

    They had become audio before their request came into this slot. Comes before the step's chunks;
    a slot has no chunk before all such frames are decoded.

    Attributes:
        slot: of the request.
        start: the first frame.
        end: the frame after the last one; between groups of the decoder.
    """

    slot: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CodecChunk:
    """Turn frames ``start`` to ``start + num_frames - 1`` of a slot into audio.

    Comes after the step's frames. It may reach past what exists, if the request stops; audio past
    the end is cut off afterwards. A decoder that is not causal is given chunks whose frames and
    look-ahead exist, and chunks with an ``end``, the last of which flushes it.

    Attributes:
        slot: of the request.
        start: the first frame.
        num_frames: of the chunk.
        end: frames that the request has in all, if the decoder is not causal and the request has
            ended; frames from there on are not read. Of an elastic decoder chunks go on after it.
    """

    slot: int
    start: int
    num_frames: int
    end: int | None = None


@dataclass(frozen=True, slots=True)
class StepPlan:
    """From scheduler to runner.

    Attributes:
        releases: slots whose requests are gone; done first, before any start.
        starts: slots to be filled with requests.
        appends: text that has arrived for requests in slots, those just started among them.
        blocks: blocks put at the end of a slot's table in this step.
        copies: all at once, before anything is written into blocks; each target once.
        prefills: at most one for each slot.
        decode_slots: slots that make one frame in this step, completely prefilled by then.
        codec_chunks: chunks to be decoded by the codec, at most one for each slot.
        codec_replays: what it decodes before that, in the order of each slot's frames.
    """

    releases: tuple[int, ...] = ()
    starts: tuple[Start, ...] = ()
    appends: tuple[Append, ...] = ()
    blocks: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    prefills: tuple[Prefill, ...] = ()
    decode_slots: tuple[int, ...] = ()
    codec_chunks: tuple[CodecChunk, ...] = ()
    codec_replays: tuple[CodecReplay, ...] = ()
    copies: tuple[BlockCopy, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (
            self.decode_slots
            or self.codec_chunks
            or self.codec_replays
            or self.prefills
            or self.starts
            or self.releases
            or self.appends
        )


@dataclass(frozen=True, slots=True)
class StepOutput:
    """From runner to scheduler: each planned slot is in exactly one of frames, stopped, faults.

    Attributes:
        frames: the frame that a slot made.
        stopped: slots whose model said that it has finished, instead of making a frame.
        lengths: slots whose frame is their last one, since the runner ends them at a limit.
        faults: slots whose numbers went bad; they end with an error, the others do not notice.
        chunks: the audio of each planned `CodecChunk` by slot, uncut: shape
            ``[num_frames * samples_per_frame]``, with a second axis if there are several channels.
            What is past ``CodecChunk.end`` may be left out. Of an elastic decoder: what the chunk
            has made certain, of any length.
        hidden_states: exported hidden states by slot; they are delivered as `Latents` before the
            slot's frame or end.
    """

    frames: Mapping[int, Any]
    stopped: frozenset[int] = frozenset()
    lengths: frozenset[int] = frozenset()
    faults: frozenset[int] = frozenset()
    chunks: Mapping[int, Samples] = field(default_factory=dict)
    hidden_states: Mapping[int, PositionStates] = field(default_factory=dict)
