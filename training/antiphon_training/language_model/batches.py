"""Batches of utterances of similar lengths, laid out for the model."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from antiphon_training.language_model.checkpoint import SpecialIds
from antiphon_training.language_model.corpus import Corpus, Flags, Ints, joined
from antiphon_training.language_model.layout import Rows, Utterances, lay_out
from antiphon_training.language_model.tokenizer import Vocabulary

_TEXT_DROPOUT = 0.1
_WIDTH_IS_A_MULTIPLE_OF = 16


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch on the host.

    Attributes:
        rows: ids.
        frames: frame of the corpus at each of ``rows.frame_places``.
    """

    rows: Rows
    frames: Ints

    def on(self, device: torch.device) -> "DeviceBatch":
        """Copy it to a device without waiting for the device."""
        arrays = (self.rows.text, self.rows.codec, self.rows.frame_places, self.rows.last_places)
        text, codec, frame_places, last_places, frames = (
            _upload(array, device) for array in (*arrays, self.frames)
        )
        return DeviceBatch(text, codec, frame_places, last_places, frames)


@dataclass(frozen=True, slots=True)
class DeviceBatch:
    """The same on a device."""

    text: Tensor
    codec: Tensor
    frame_places: Tensor
    last_places: Tensor
    frames: Tensor


class Batcher:
    """Makes batches of a corpus.

    Texts have two readings: the usual tokens, and tokens with some merges left out.

    Attributes:
        corpus: the corpus.
        num_frames: frames of each utterance.
    """

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, ids: SpecialIds) -> None:
        self.corpus = corpus
        self._ids = ids
        self._readings = [
            joined(vocabulary.encode(corpus.texts, dropout=dropout))
            for dropout in (0.0, _TEXT_DROPOUT)
        ]
        self._speakers = np.array([ids.speakers[name] for name in corpus.speakers], np.int64)
        self.num_frames = corpus.num_frames

    def epoch(
        self,
        rng: np.random.Generator,
        *,
        num_positions: int,
        whole_share: float,
        most: int | None = None,
    ) -> Iterator[Batch]:
        """Yield all utterances in batches, in a random order.

        Args:
            rng: source of order, layouts and readings.
            most: number of utterances, the first ones; ``None``: all.
            num_positions: positions of a batch, padding included.
            whole_share: share of utterances whose text comes before the frames.
        """
        num_frames = self.num_frames[:most]
        lengths = num_frames * rng.uniform(0.95, 1.05, len(num_frames))
        order = np.argsort(lengths)
        groups = _groups(self.num_frames[order], num_positions, whole_share)
        for start, end in rng.permutation(groups):
            numbers = order[start:end]
            yield self.batch(
                numbers,
                is_whole=rng.random(len(numbers)) < whole_share,
                is_tagged=rng.random(len(numbers)) < 0.5,
                reading=int(rng.random() < 0.3),
            )

    def utterances(
        self, numbers: Ints, *, is_whole: Flags, is_tagged: Flags, reading: int = 0
    ) -> Utterances:
        """Return utterances of these numbers."""
        text, offsets = self._readings[reading]
        rows = [text[offsets[number] : offsets[number + 1]] for number in numbers]
        joined_text = np.concatenate(rows)
        lengths = np.array([len(row) for row in rows])
        text_offsets = np.concatenate(([0], np.cumsum(lengths)))
        return Utterances(joined_text, text_offsets, self._speakers[numbers], is_tagged, is_whole)

    def batch(self, numbers: Ints, *, is_whole: Flags, is_tagged: Flags, reading: int = 0) -> Batch:
        """Return a batch of utterances, complete with their frames."""
        batch = self.utterances(numbers, is_whole=is_whole, is_tagged=is_tagged, reading=reading)
        num_frames = self.num_frames[numbers]
        width = int((batch.starts + num_frames).max()) + 1
        width = -(-width // _WIDTH_IS_A_MULTIPLE_OF) * _WIDTH_IS_A_MULTIPLE_OF
        rows = lay_out(self._ids, batch, num_frames, width)
        return Batch(rows, self.corpus.frames_of(numbers))


def _groups(num_frames: Ints, num_positions: int, whole_share: float) -> list[tuple[int, int]]:
    """Return the first and last of each batch, of utterances in the order of their lengths."""
    groups: list[tuple[int, int]] = []
    start, most = 0, 0
    for end, frames in enumerate(num_frames.tolist()):
        most = max(most, frames)
        # Text has about half as many tokens as speech has frames.
        longest = int(most * (1 + 0.5 * whole_share)) + 16
        if end > start and (end + 1 - start) * longest > num_positions:
            groups.append((start, end))
            start, most = end, frames
    groups.append((start, len(num_frames)))
    return groups


def _upload(array: Ints, device: torch.device) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
