"""The flow's part of the decoder: mel frames of what is due, in batches of streams.

A recording is computed once for all streams of its voice whose slots are still as it left them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.models.cosyvoice3.config import MEL_FRAMES_PER_TOKEN
from antiphon.models.cosyvoice3.flow import FIRST_CHUNKS, ChunkPass, MelFlow
from antiphon.models.cosyvoice3.speech_rows import Due, SpeechRows
from antiphon.nn.graphs import round_up
from antiphon.nn.host_device import upload

_MAX_FIRST_FRAMES = 1200
"""Mel frames of all rows of a pass whose length is not that of a graph."""


@dataclass(frozen=True, slots=True)
class MelFlowPasses:
    """Passes of the flow over streams.

    Attributes:
        ahead: tokens of speech in a stream's first chunk with speech.
    """

    flow: MelFlow
    ahead: int

    def run(self, dues: Sequence[Due], state: SpeechRows) -> None:
        """Make all mel frames that are certain by now."""
        while ready := [each for each in dues if self._num_taken(each)]:
            firsts = [each for each in ready if not each.stream.num_in_chunks]
            short = [each for each in firsts if not self._num_recorded(each)]
            for group in alike(short, _length, partial(self._most_firsts, state)):
                self._begin(group, state)
            recorded = [each for each in firsts if each not in short]
            for each in recorded:
                self._record(each, state)
            later = [each for each in ready if each not in firsts]
            for num_chunks, batch in ((FIRST_CHUNKS, recorded), (1, later)):
                for start in range(0, len(batch), state.sizes[-1]):
                    self._go_on(batch[start : start + state.sizes[-1]], num_chunks, state)

    def capture(self, size: int, state: SpeechRows) -> None:
        """Capture the passes over ``size`` rows, with rows of padding."""
        for num_chunks, inputs in state.flow_inputs.items():
            numbers = ChunkPass(state.flow.num_slots, 0, 0, inputs.tokens.shape[1]).numbers
            inputs.passes.copy_(upload(numbers, inputs.passes.device))
            torch.cuda.synchronize(inputs.passes.device)
            function = partial(self.chunk_pass, num_chunks, size, state)
            state.graphs.capture(("flow", num_chunks, size), function)

    def chunk_pass(
        self, num_chunks: int, size: int, state: SpeechRows, alone: ChunkPass | None = None
    ) -> Tensor:
        """Make the mel frames of the first ``size`` rows of the inputs; see `MelFlow.go_on`."""
        inputs = state.flow_inputs[num_chunks]
        tokens, mel, passes = inputs.tokens[:size], inputs.mel[:size], inputs.passes[:size]
        return self.flow.go_on(tokens, mel, passes, state.flow, alone)

    def _num_taken(self, due: Due) -> int:
        """Return how many tokens of speech the next pass takes, 0 if it has to wait."""
        stream, config = due.stream, self.flow.config
        wanted = config.chunk_tokens if stream.num_in_chunks else self.ahead
        num_there = stream.num_tokens - stream.num_in_chunks
        if num_there >= wanted + config.look_ahead_tokens:
            return wanted
        return min(num_there, wanted) if due.is_end else 0

    def _num_recorded(self, due: Due) -> int:
        return self.flow.num_recorded(len(due.stream.reference.tokens), self.ahead)

    def _most_firsts(self, state: SpeechRows, due: Due) -> int:
        """Return how many first passes like this one are a batch."""
        num_frames = MEL_FRAMES_PER_TOKEN * sum(_length(due))
        return min(state.sizes[-1], max(1, _MAX_FIRST_FRAMES // num_frames))

    def _begin(self, dues: Sequence[Due], state: SpeechRows) -> None:
        """Make the first pass of streams whose recordings are short, and equally long."""
        streams = [each.stream for each in dues]
        tokens = [torch.cat((each.stream.reference.tokens, each.tokens)) for each in dues]
        for stream in streams:
            state.recorded[stream.slot] = None
        mel = self.flow.begin(
            torch.stack(tokens),
            [each.reference for each in streams],
            [each.slot for each in streams],
            state.flow,
            ahead=self.ahead,
        )
        for each, frames in zip(dues, mel, strict=True):
            each.stream.num_in_chunks += self._num_taken(each)
            each.mel.append(frames)

    def _record(self, due: Due, state: SpeechRows) -> None:
        """Make the pass over a stream's recording, or copy what it left in some slot."""
        stream = due.stream
        if stream.voice in state.recorded:
            sources = [slot for slot, each in enumerate(state.recorded) if each == stream.voice]
            source = stream.slot if stream.slot in sources else sources[0]
            num_frames = MEL_FRAMES_PER_TOKEN * self._num_recorded(due)
            self.flow.recall(source, stream.slot, state.flow, num_frames)
        else:
            state.recorded[stream.slot] = None
            self.flow.record(stream.reference, stream.slot, state.flow, ahead=self.ahead)
        state.recorded[stream.slot] = stream.voice

    def _go_on(self, dues: Sequence[Due], num_chunks: int, state: SpeechRows) -> None:
        """Make the next chunks of streams that the passes before have left as many tokens of."""
        inputs, size = state.flow_inputs[num_chunks], round_up(len(dues), state.sizes)
        passes, windows, known = [], [], []
        for each in dues:
            told, window = self._next(each, inputs.tokens.shape[1])
            passes.append(told)
            windows.append(F.pad(window, (0, inputs.tokens.shape[1] - len(window))))
            known.append(each.stream.reference.mel[told.start :])
        numbers = [each.numbers for each in passes]
        numbers += [(state.flow.num_slots, *numbers[0][1:])] * (size - len(dues))
        inputs.passes[:size].copy_(upload(numbers, inputs.passes.device))
        inputs.tokens[: len(dues)].copy_(torch.stack(windows))
        num_known = max(map(len, known))
        if num_known:  # as many in each, or none
            inputs.mel[: len(dues), :num_known].copy_(torch.stack(known))
        alone = passes[0] if size == 1 and not state.graphs.is_enabled else None
        function = partial(self.chunk_pass, num_chunks, size, state, alone)
        mel = state.graphs.run(("flow", num_chunks, size), function)
        mel = mel[: len(dues), num_known:].clone()  # the next pass overwrites it
        for each, frames in zip(dues, mel, strict=True):
            num_taken = self._num_taken(each)
            each.stream.num_in_chunks += num_taken
            each.mel.append(frames[: MEL_FRAMES_PER_TOKEN * num_taken])

    def _next(self, due: Due, width: int) -> tuple[ChunkPass, Tensor]:
        """Return the next pass over chunks of a stream, and its tokens, up to ``width``."""
        stream, reference = due.stream, due.stream.reference
        num_reference = len(reference.tokens)
        number, tokens = num_reference + stream.num_in_chunks, due.tokens
        if stream.num_in_chunks:
            window = tokens[stream.num_in_chunks - due.first :][:width]
        else:
            number = self._num_recorded(due)
            window = torch.cat((reference.tokens[number:], tokens))[:width]
        start = MEL_FRAMES_PER_TOKEN * number
        return ChunkPass(stream.slot, start, len(reference.mel), len(window)), window


def alike(
    dues: Sequence[Due], key: Callable[[Due], Any], most: Callable[[Due], int]
) -> Iterator[Sequence[Due]]:
    """Yield groups of those with equal keys, of up to ``most`` of each kind."""
    for _, group in groupby(sorted(dues, key=key), key):
        members = [*group]
        size = most(members[0])
        yield from (members[start : start + size] for start in range(0, len(members), size))


def _length(due: Due) -> tuple[int, int]:
    """Return tokens of the recording and of the speech."""
    return len(due.stream.reference.tokens), len(due.tokens)
