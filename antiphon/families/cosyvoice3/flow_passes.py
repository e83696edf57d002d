"""The flow's part of the decoder: mel frames of due groups, in batches of streams.

A reference is computed once for all streams of its voice, as long as a slot still holds the result.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from antiphon.families.cosyvoice3.config import MEL_FRAMES_PER_TOKEN
from antiphon.families.cosyvoice3.flow import FIRST_CHUNKS, MelFlow
from antiphon.families.cosyvoice3.flow_context import ChunkPass, phase_of
from antiphon.families.cosyvoice3.speech_rows import Due, PassInputs, SpeechRows
from antiphon.nn.device_writes import upload
from antiphon.nn.graphs import round_up


@dataclass(frozen=True, slots=True)
class MelFlowPasses:
    """Runs passes of the flow over streams.

    Attributes:
        ahead: speech tokens in a stream's first chunk with speech.
        pads: whether first passes are padded to the width of others, for batches and graphs.
    """

    flow: MelFlow
    ahead: int
    pads: bool

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of passes in tokens, ascending: later passes; first ones without a reference;
        those after the pass over the reference; padded first ones with a short reference.
        """
        chunk = self.flow.config.chunk_tokens
        recorded = FIRST_CHUNKS * chunk
        return (chunk, self.ahead, recorded, recorded + chunk)

    def run(self, dues: Sequence[Due], state: SpeechRows) -> None:
        """Compute all mel frames that no later token can change."""
        while ready := [each for each in dues if self._num_taken(each)]:
            for each in ready:
                if not each.stream.num_in_chunks:
                    begin = self._record if self._num_recorded(each) else self._introduce
                    begin(each, state)
            for group in alike(ready, self._width, state.sizes[-1]):
                self._go_on(group, self._width(group[0]), state)

    def capture(self, size: int, state: SpeechRows) -> None:
        """Capture the passes over ``size`` rows of padding."""
        for width, inputs in state.flow_inputs.items():
            numbers = ChunkPass(state.flow.num_slots, 0, 0, inputs.tokens.shape[1], 0)
            inputs.passes.copy_(upload(numbers, inputs.passes.device))
            torch.cuda.synchronize(inputs.passes.device)
            function = partial(self.chunk_pass, inputs, size, state)
            state.graphs.capture(("flow", width, size), function)

    def chunk_pass(
        self, inputs: PassInputs, size: int, state: SpeechRows, alone: ChunkPass | None = None
    ) -> Tensor:
        """Return the mel frames of the first ``size`` rows of the inputs; see `MelFlow.go_on`."""
        tokens, mel, passes = inputs.tokens[:size], inputs.mel[:size], inputs.passes[:size]
        return self.flow.go_on(tokens, mel, passes, state.flow, alone)

    def _num_taken(self, due: Due) -> int:
        """Return the number of speech tokens in the next pass, 0 if it has to wait."""
        stream, config = due.stream, self.flow.config
        wanted = config.chunk_tokens if stream.num_in_chunks else self.ahead
        num_there = stream.num_tokens - stream.num_in_chunks
        if num_there >= wanted + config.look_ahead_tokens:
            return wanted
        return min(num_there, wanted) if due.is_end else 0

    def _num_recorded(self, due: Due) -> int:
        return self.flow.num_recorded(len(due.stream.reference.tokens), self.ahead)

    def _width(self, due: Due) -> int:
        """Return the width of a stream's next pass in tokens."""
        later, first, recorded, padded = self.widths
        num_reference = len(due.stream.reference.tokens)
        if due.stream.num_in_chunks:
            return later
        if self._num_recorded(due):
            return recorded
        if self.pads:
            return padded if num_reference else first
        return num_reference + self.ahead

    def _introduce(self, due: Due, state: SpeechRows) -> None:
        """Set the speaker of a stream that begins without a pass over a reference."""
        stream = due.stream
        state.recorded[stream.slot] = None
        self.flow.introduce(stream.reference, stream.slot, state.flow)

    def _record(self, due: Due, state: SpeechRows) -> None:
        """Run the pass over a stream's reference, or copy the result from another slot."""
        stream = due.stream
        sources = [slot for slot, each in enumerate(state.recorded) if each == stream.voice]
        state.recorded[stream.slot] = None  # on failure the slot would mix two voices
        if sources:
            source = stream.slot if stream.slot in sources else sources[0]
            num_frames = MEL_FRAMES_PER_TOKEN * self._num_recorded(due)
            self.flow.recall(source, stream.slot, state.flow, num_frames)
        else:
            self.flow.record(stream.reference, stream.slot, state.flow, ahead=self.ahead)
        state.recorded[stream.slot] = stream.voice

    def _go_on(self, dues: Sequence[Due], width: int, state: SpeechRows) -> None:
        """Compute the next chunks of streams in passes over ``width`` tokens."""
        size, config = round_up(len(dues), state.sizes), self.flow.config
        inputs = state.flow_inputs.get(width)
        if inputs is None:
            inputs = PassInputs.fresh(config, width, len(dues), state.flow.speakers.device)
        passes = [self._next(each, width) for each in dues]
        padding = [passes[0]._replace(slot=state.flow.num_slots)] * (size - len(dues))
        inputs.passes[:size].copy_(upload([*passes, *padding], inputs.passes.device))
        for row, (due, chunk) in enumerate(zip(dues, passes, strict=True)):
            _fill(inputs.tokens[row], inputs.mel[row], due, chunk)
        alone = passes[0] if size == 1 and not state.graphs.is_enabled else None
        function = partial(self.chunk_pass, inputs, size, state, alone)
        # A copy: the next pass overwrites it.
        mel = state.graphs.run(("flow", width, size), function)[: len(dues)].clone()
        for due, chunk, frames in zip(dues, passes, mel, strict=True):
            first, num_taken = max(0, chunk.num_pinned - chunk.start), self._num_taken(due)
            due.stream.num_in_chunks += num_taken
            due.mel.append(frames[first : first + MEL_FRAMES_PER_TOKEN * num_taken])

    def _next(self, due: Due, width: int) -> ChunkPass:
        stream, reference = due.stream, due.stream.reference
        num_reference, num_pinned = len(reference.tokens), len(reference.mel)
        number = num_reference + stream.num_in_chunks
        if not stream.num_in_chunks:
            number += self.ahead - width
        num_there = num_reference + due.first + len(due.tokens) - number
        return ChunkPass(
            stream.slot,
            MEL_FRAMES_PER_TOKEN * number,
            num_pinned,
            min(num_there, width + self.flow.config.look_ahead_tokens),
            phase_of(num_pinned, self.ahead, self.flow.config),
        )


def _fill(tokens: Tensor, mel: Tensor, due: Due, chunk: ChunkPass) -> None:
    """Write the inputs of a pass into their row; mel frames are zero unless it has a reference."""
    reference, num_none = due.stream.reference, max(0, -chunk.start)
    number = chunk.start // MEL_FRAMES_PER_TOKEN - len(reference.tokens)  # among those of speech
    parts = [due.tokens[max(0, number - due.first) :]]
    if number < 0:
        parts.insert(0, reference.tokens[max(0, chunk.start) // MEL_FRAMES_PER_TOKEN :])
        mel.zero_()
        kept = reference.mel[max(0, chunk.start) :][: len(mel) - num_none]
        mel[num_none : num_none + len(kept)].copy_(kept)
    place = num_none // MEL_FRAMES_PER_TOKEN
    for part in parts:
        taken = part[: len(tokens) - place]
        tokens[place : place + len(taken)].copy_(taken)
        place += len(taken)


def alike(dues: Sequence[Due], key: Callable[[Due], Any], size: int) -> Iterator[Sequence[Due]]:
    """Yield groups with equal keys, of at most ``size`` streams."""
    for _, group in groupby(sorted(dues, key=key), key):
        members = [*group]
        yield from (members[start : start + size] for start in range(0, len(members), size))
