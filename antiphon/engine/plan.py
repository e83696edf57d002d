"""Step plans: the interface between scheduler and runner.

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
    """Capacity of a runner's paged KV cache.

    Attributes:
        max_positions: positions of one request, prompt and frames together.
        replayed_positions: limit of positions of frames made before a preemption that a step
            computes again; ``None``: as for prompts. A runner that does so exactly does it frame
            by frame.
        copies_blocks: whether it supports `BlockCopy`. What follows on copied positions is then
            the same, to the bit, as what follows on computed ones.
    """

    num_blocks: int
    block_positions: int
    max_positions: int
    replayed_positions: int | None = None
    copies_blocks: bool = False


@dataclass(frozen=True, slots=True)
class CodecShape:
    """Properties of the codec of a runner that decodes its frames.

    Attributes:
        chunk_sizes: numbers of frames that one `CodecChunk` may have, ascending multiples of
            ``group_frames``.
        look_ahead_frames: look-ahead of the `antiphon.codec.protocol.StreamingDecoder`.
        has_upstream: whether frames arrive as pieces from the stage before, one by one, and a step
            only stores them; the last piece has no frame.
        pass_frames: frames of a pass of the decoder; the first frame has a pass of its own, and
            chunks that end within a pass repeat it.
        late_frames: frames past the end that chunks reach to, if the audio of a frame may come with
            later chunks, or be none; see `antiphon.codec.protocol.ElasticDecoder`.
        batch_chunks: chunks of a full batch; 1: a step decodes any number of chunks.
    """

    samples_per_frame: int
    sample_rate_hz: int
    chunk_sizes: tuple[int, ...]
    look_ahead_frames: int = 0
    group_frames: int = 1
    has_upstream: bool = False
    pass_frames: int = 1
    late_frames: int = 0
    batch_chunks: int = 1

    @property
    def frame_s(self) -> float:
        return self.samples_per_frame / self.sample_rate_hz

    def up_to(self, num_frames: int | None) -> "CodecShape":
        """Return the shape without larger chunks, its smallest excepted; ``None``: with all."""
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

        An elastic decoder keeps one: a client that has all frames of a request has all its audio.
        """
        return max(self.look_ahead_frames, self.is_elastic)


@dataclass(frozen=True, slots=True)
class Start:
    """A request enters a slot, or comes back to one after it was preempted.

    Attributes:
        slot: slot, whose block table is empty.
        frames: frames made before it lost its slot, in order; the model continues after them.
            Text that had arrived before follows as appends in the same plan.
        num_frames_decoded: number of ``frames`` that are audio already. The decoder receives these
            by `CodecReplay`, and finds the others in the frame store.
    """

    slot: int
    prompt: Prompt
    frames: tuple[Any, ...] = ()
    num_frames_decoded: int = 0


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """Copy a block whose first positions are a prefix of a prompt; the others are overwritten.

    Attributes:
        source: cached block, which another request may receive in the same plan.
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

    Earlier positions were computed in earlier steps, or are in blocks shared with another request.
    A prompt is split between blocks, so that the split changes no result, not even by rounding.
    ``prompt.num_positions + len(Start.frames)`` positions are computed before the slot makes a
    frame. The step that makes frame k computes position ``prompt.num_positions + k`` itself.
    """

    slot: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CodecReplay:
    """Decode frames ``start`` to ``end - 1`` of ``Start.frames`` again, and drop their audio.

    The audio was delivered before the request entered this slot, which has no chunk before all such
    frames are decoded. Replays come before a step's chunks. ``end`` is between groups.
    """

    slot: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CodecChunk:
    """Decode frames ``start`` to ``start + num_frames - 1`` of a slot.

    Chunks come after the step's frames. A chunk may reach past the last frame if the request stops;
    audio past the end is cut off afterwards. A decoder that is not causal receives chunks whose
    frames and look-ahead exist, and chunks with an ``end``, the last of which flushes it.

    Attributes:
        end: number of all frames of the request, if the decoder is not causal and the request has
            ended; frames from there on are not read. Chunks of an elastic decoder continue after
            it.
    """

    slot: int
    start: int
    num_frames: int
    end: int | None = None


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The work of one step, from scheduler to runner.

    Attributes:
        releases: slots whose requests are gone; released before any start.
        appends: text that has arrived for requests in slots, those of ``starts`` included.
        blocks: blocks appended to the block tables, by slot.
        copies: block copies, done at once before blocks are written; each target once.
        prefills: prefills, at most one for each slot.
        decode_slots: slots that make one frame in this step, completely prefilled by then.
        codec_chunks: chunks, at most one for each slot.
        codec_replays: replays before the chunks, in the order of each slot's frames.
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
        computed = (self.prefills, self.decode_slots, self.codec_chunks, self.codec_replays)
        return not any((*computed, self.starts, self.releases, self.appends))


@dataclass(frozen=True, slots=True)
class StepOutput:
    """The results of one step, from runner to scheduler.

    A planned slot that is in neither ``frames`` nor ``stopped`` computed NaN: its request ends with
    an error.

    Attributes:
        stopped: slots whose model has finished instead of making a frame.
        lengths: slots whose frame is their last one, since the runner has a limit.
        chunks: audio of each planned `CodecChunk` by slot, uncut: shape
            ``[num_frames * samples_per_frame]``, with a second axis for channels. Audio past
            ``CodecChunk.end`` may be left out. Audio of an elastic decoder has any length.
        hidden_states: exported hidden states by slot; they are delivered as `Latents` before the
            slot's frame or end.
    """

    frames: Mapping[int, Any]
    stopped: frozenset[int] = frozenset()
    lengths: frozenset[int] = frozenset()
    chunks: Mapping[int, Samples] = field(default_factory=dict)
    hidden_states: Mapping[int, PositionStates] = field(default_factory=dict)
