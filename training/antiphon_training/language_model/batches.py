"""Batches of utterances of similar lengths, laid out for the model."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from antiphon_training.language_model.checkpoint import SpecialIds
from antiphon_training.language_model.corpus import Corpus, Flags, Ints, joined
from antiphon_training.language_model.layout import Rows, Utterances, lay_out
from antiphon_training.language_model.tokenizer import Vocabulary

_TEXT_DROPOUT = 0.1
_WIDTHS = (32, 48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256, 320, 384, 448, 512)
"""Positions of rows: few different ones, since each shape of a batch is a CUDA graph of its own."""
_MORE_WIDTHS = 256


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch on the host.

    Attributes:
        rows: ids.
        frames: frame of the corpus at each of ``rows.frame_places``.
        num_frames: number of frames; those after them are padding.
    """

    rows: Rows
    frames: Ints
    num_frames: int

    def on(self, device: torch.device) -> "DeviceBatch":
        """Copy it to a device without waiting for the device."""
        arrays = {
            "text": self.rows.text,
            "codec": self.rows.codec,
            "frame_places": self.rows.frame_places,
            "last_places": self.rows.last_places,
            "frames": self.frames,
            "num_frames": np.array(self.num_frames),
        }
        return DeviceBatch(**{name: _upload(array, device) for name, array in arrays.items()})


@dataclass(frozen=True, slots=True)
class DeviceBatch:
    """The same on a device."""

    text: Tensor
    codec: Tensor
    frame_places: Tensor
    last_places: Tensor
    frames: Tensor
    num_frames: Tensor


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
        """Yield all utterances in batches of few shapes, in a random order.

        Batches that would not be full are filled up with utterances of other batches.

        Args:
            rng: source of order, layouts and readings.
            most: number of utterances, the first ones; ``None``: all.
            num_positions: positions of a batch, padding included.
            whole_share: share of utterances whose text comes before the frames.
        """
        num_frames = self.num_frames[:most]
        count = len(num_frames)
        is_whole, is_tagged = rng.random(count) < whole_share, rng.random(count) < 0.5
        texts = np.maximum(*(np.diff(offsets) for _, offsets in self._readings))[:count]
        lengths = num_frames + np.where(is_whole, texts, 0) + _POSITIONS_BESIDE
        batches: list[tuple[int, Ints]] = []
        widths = _width_of(lengths)
        for width in np.unique(widths).tolist():
            members = rng.permutation(np.flatnonzero(widths == width))
            num_rows = max(1, num_positions // width)
            missing = -len(members) % num_rows
            members = np.concatenate((members, rng.choice(members, missing)))
            batches += [(width, numbers) for numbers in members.reshape(-1, num_rows)]
        for index in rng.permutation(len(batches)):
            width, numbers = batches[index]
            yield self.batch(
                numbers,
                is_whole=is_whole[numbers],
                is_tagged=is_tagged[numbers],
                reading=int(rng.random() < 0.3),
                width=width,
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

    def batch(
        self, numbers: Ints, *, is_whole: Flags, is_tagged: Flags, reading: int = 0, width: int = 0
    ) -> Batch:
        """Return a batch of utterances, complete with their frames.

        Args:
            numbers: numbers of the utterances.
            is_whole: as in `Utterances`.
            is_tagged: as in `Utterances`.
            reading: number of the texts' reading.
            width: positions of each row; 0: as many as it takes. Otherwise frames are padded too:
                to one per position, at the last positions of rows, which nothing else uses.
        """
        batch = self.utterances(numbers, is_whole=is_whole, is_tagged=is_tagged, reading=reading)
        rows = lay_out(self._ids, batch, self.num_frames[numbers], width)
        frames = self.corpus.frames_of(numbers)
        num_padding = len(numbers) * width - len(frames) if width else 0
        ends = (np.arange(num_padding) % len(numbers) + 1) * width - 1
        padded = replace(rows, frame_places=np.concatenate((rows.frame_places, ends)))
        return Batch(padded, np.pad(frames, (0, num_padding)), len(frames))


_POSITIONS_BESIDE = 3 + 6 + 1 + 1 + 1 + 1
"""Role, tag, end of text, begin of speech, the place of padding, and one to spare."""


def _width_of(lengths: Ints) -> Ints:
    """Return the fewest positions, of `_WIDTHS` or more, that hold rows of some lengths."""
    longer = np.arange(_WIDTHS[-1], int(lengths.max()) + _MORE_WIDTHS + 1, _MORE_WIDTHS)
    widths = np.array((*_WIDTHS[:-1], *longer))
    return widths[np.searchsorted(widths, lengths)]


def _upload(array: Ints, device: torch.device) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
