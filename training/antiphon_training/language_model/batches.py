"""Batches of utterances of similar lengths, laid out for the model."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from antiphon_training.language_model.checkpoint import SpecialIds
from antiphon_training.language_model.corpus import (
    Corpus,
    Flags,
    Ints,
    frames_of,
    joined,
)
from antiphon_training.language_model.layout import Rows, Utterances, lay_out
from antiphon_training.language_model.tokenizer import Vocabulary
from antiphon_training.sizes import FRAME_SAMPLES, SAMPLE_RATE_HZ

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


@dataclass(frozen=True, slots=True)
class Lesson:
    """Utterances with their texts as tokens.

    Attributes:
        corpus: recordings, then passages made of them.
        num_recordings: number of the former.
        readings: tokens end to end and their offsets: the usual ones, then some without merges.
    """

    corpus: Corpus
    num_recordings: int
    readings: tuple[tuple[Ints, Ints], ...]

    @property
    def hours(self) -> float:
        """Hours of the recordings."""
        return (
            float(self.corpus.offsets[self.num_recordings]) * FRAME_SAMPLES / SAMPLE_RATE_HZ / 3600
        )

    @classmethod
    def of(
        cls, corpus: Corpus, vocabulary: Vocabulary, num_recordings: int | None = None
    ) -> "Lesson":
        """Read the texts."""
        readings = (
            joined(vocabulary.encode(corpus.texts, dropout=dropout))
            for dropout in (0.0, _TEXT_DROPOUT)
        )
        most = len(corpus.texts)
        return cls(corpus, most if num_recordings is None else num_recordings, tuple(readings))


class Batcher:
    """Makes batches of lessons."""

    def __init__(self, lesson: Lesson, ids: SpecialIds) -> None:
        self._ids = ids
        self._readings = lesson.readings
        self._speakers = self._speaker_ids(lesson)
        self._is_passage = _is_passage(lesson)
        self._offsets = lesson.corpus.offsets

    @property
    def num_frames(self) -> Ints:
        """Frames of each utterance."""
        return np.diff(self._offsets)

    def add(self, lesson: Lesson) -> None:
        """Add utterances; their frames follow those that are there."""
        self._readings = tuple(
            (np.concatenate((ids, more)), _joined_offsets(offsets, more_offsets))
            for (ids, offsets), (more, more_offsets) in zip(
                self._readings, lesson.readings, strict=True
            )
        )
        self._speakers = np.concatenate((self._speakers, self._speaker_ids(lesson)))
        self._is_passage = np.concatenate((self._is_passage, _is_passage(lesson)))
        self._offsets = _joined_offsets(self._offsets, lesson.corpus.offsets)

    def _speaker_ids(self, lesson: Lesson) -> Ints:
        return np.array([self._ids.speakers[name] for name in lesson.corpus.speakers], np.int64)

    def epoch(
        self,
        rng: np.random.Generator,
        *,
        num_positions: int,
        whole_share: float,
        passages: bool = True,
    ) -> Iterator[Batch]:
        """Yield all utterances in batches of few shapes, in a random order.

        Batches that would not be full are filled up with utterances of other batches.

        Args:
            rng: source of order, layouts and readings.
            passages: whether utterances of several recordings are among them.
            num_positions: positions of a batch, padding included.
            whole_share: share of utterances whose text comes before the frames.
        """
        chosen = np.flatnonzero(passages | ~self._is_passage)
        num_frames = self.num_frames
        count = len(num_frames)
        is_whole, is_tagged = rng.random(count) < whole_share, rng.random(count) < 0.5
        texts = np.maximum(*(np.diff(offsets) for _, offsets in self._readings))
        lengths = num_frames + np.where(is_whole, texts, 0) + _POSITIONS_BESIDE
        batches: list[tuple[int, Ints]] = []
        widths = _width_of(lengths)[chosen]
        for width in np.unique(widths).tolist():
            members = rng.permutation(chosen[widths == width])
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
        lengths = self._offsets[numbers + 1] - self._offsets[numbers]
        rows = lay_out(self._ids, batch, lengths, width)
        frames = frames_of(self._offsets, numbers)
        num_padding = len(numbers) * width - len(frames) if width else 0
        ends = (np.arange(num_padding) % len(numbers) + 1) * width - 1
        padded = replace(rows, frame_places=np.concatenate((rows.frame_places, ends)))
        return Batch(padded, np.pad(frames, (0, num_padding)), len(frames))


_POSITIONS_BESIDE = 3 + 6 + 1 + 1 + 1 + 1
"""Role, tag, end of text, begin of speech, the place of padding, and one to spare."""


def _joined_offsets(offsets: Ints, more: Ints) -> Ints:
    return np.concatenate((offsets, offsets[-1] + more[1:]))


def _is_passage(lesson: Lesson) -> Flags:
    return np.arange(len(lesson.corpus.texts)) >= lesson.num_recordings


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
