"""Utterances as codes and texts, read from shards of the codec's output.

A shard ``codes-*.npz`` holds ``codes`` (uint16 ``[total_frames, 16]``), ``offsets`` (int64
``[utterances + 1]``, the first frame of each utterance), ``texts`` (the spoken form) and
``speaker`` (one name, or one for each utterance); perhaps ``phonemes`` (uint8
``[total_frames, LABELS_PER_FRAME]``).
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from antiphon_training.shards import LABELS_PER_FRAME, UNKNOWN

_HELD_OUT_SHARE = 64
"""One in so many texts is held out, the same ones in every run."""

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Utterances of all shards.

    Attributes:
        codes: uint16 ``[total_frames, groups]``.
        offsets: first frame of each utterance, ``[utterances + 1]``.
        texts: spoken form of each utterance.
        speakers: name of each utterance's speaker.
        phonemes: those within each frame, uint8 ``[total_frames, LABELS_PER_FRAME]``; `UNKNOWN`.
    """

    codes: NDArray[np.uint16]
    offsets: Ints
    texts: tuple[str, ...]
    speakers: tuple[str, ...]
    phonemes: NDArray[np.uint8]

    @classmethod
    def read(cls, files: Sequence[Path]) -> "Corpus":
        """Read shards."""
        parts = [cls._shard(file) for file in files]
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(
            codes=np.concatenate([part.codes for part in parts]),
            offsets=offsets_of(lengths),
            texts=tuple(text for part in parts for text in part.texts),
            speakers=tuple(name for part in parts for name in part.speakers),
            phonemes=np.concatenate([part.phonemes for part in parts]),
        )

    @classmethod
    def _shard(cls, file: Path) -> "Corpus":
        with np.load(file, allow_pickle=False) as shard:
            texts = tuple(map(str, shard["texts"]))
            speakers = np.broadcast_to(shard["speaker"], len(texts))
            offsets = shard["offsets"].astype(np.int64)
            codes = shard["codes"].astype(np.uint16)
            phonemes = shard.get("phonemes", unknown_phonemes(len(codes)))
        return cls(codes, offsets, texts, tuple(map(str, speakers)), phonemes)

    def write(self, file: Path) -> None:
        """Write one shard."""
        np.savez(
            file,
            codes=self.codes,
            offsets=self.offsets,
            texts=np.array(self.texts),
            speaker=np.array(self.speakers),
            phonemes=self.phonemes,
        )

    def held_out(self) -> NDArray[np.bool_]:
        """Return which utterances are not trained on; equal texts are on the same side."""
        is_held_out = (zlib.crc32(text.encode()) % _HELD_OUT_SHARE == 0 for text in self.texts)
        return np.fromiter(is_held_out, np.bool_, len(self.texts))

    def chosen(self, numbers: Ints) -> "Corpus":
        """Return some utterances."""
        frames = frames_of(self.offsets, numbers)
        return Corpus(
            codes=self.codes[frames],
            offsets=offsets_of(self.num_frames[numbers]),
            texts=tuple(self.texts[number] for number in numbers),
            speakers=tuple(self.speakers[number] for number in numbers),
            phonemes=self.phonemes[frames],
        )

    def with_passages(self, rng: np.random.Generator, share: float, max_frames: int) -> "Corpus":
        """Return the corpus with further utterances of several sentences each.

        A server gives the model passages; recordings are of single sentences. Silence at both ends
        of each recording makes the pause between two.

        Args:
            rng: source of the choice.
            share: number of passages, relative to that of utterances.
            max_frames: longest passage.
        """
        lengths = self.num_frames
        names = np.array(self.speakers)
        by_speaker = {str(name): np.flatnonzero(names == name) for name in np.unique(names)}
        passages: list[Ints] = []
        for speaker in rng.choice(names, int(share * len(self.texts))):
            drawn = rng.choice(by_speaker[str(speaker)], int(rng.integers(2, 6)))
            fitting = drawn[: int(np.sum(np.cumsum(lengths[drawn]) <= max_frames))]
            if len(fitting) > 1:
                passages.append(fitting)
        if not passages:
            return self
        added = [int(lengths[passage].sum()) for passage in passages]
        frames = frames_of(self.offsets, np.concatenate(passages))
        return Corpus(
            codes=np.concatenate((self.codes, self.codes[frames])),
            offsets=offsets_of(np.concatenate((lengths, added))),
            texts=(*self.texts, *(" ".join(self.texts[i] for i in each) for each in passages)),
            speakers=(*self.speakers, *(self.speakers[each[0]] for each in passages)),
            phonemes=np.concatenate((self.phonemes, self.phonemes[frames])),
        )

    @property
    def num_frames(self) -> Ints:
        """Frames of each utterance."""
        return np.diff(self.offsets)


def random_corpus(
    num_utterances: int, seed: int, *, frames: tuple[int, int] = (20, 150), num_codes: int = 2048
) -> Corpus:
    """Return utterances of random codes and words, for tests and measurements of speed."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(*frames, num_utterances)
    syllables = np.array([first + last for first in "bdfgklmnprst" for last in "aeiou"])
    texts = []
    for length in lengths:
        num_words = max(1, int(length) // 6)
        words = ["".join(rng.choice(syllables, rng.integers(1, 4))) for _ in range(num_words)]
        texts.append(" ".join(words).capitalize() + ".")
    return Corpus(
        codes=rng.integers(0, num_codes, (int(lengths.sum()), 16)).astype(np.uint16),
        offsets=offsets_of(lengths),
        texts=tuple(texts),
        speakers=("random",) * num_utterances,
        phonemes=unknown_phonemes(int(lengths.sum())),
    )


def babble(num_utterances: int, seed: int, *, num_codes: int = 2048) -> Corpus:
    """Return made-up speech, to see whether a model learns to read.

    Each of 70 syllables is spoken as one to five frames of its own codes, some of which vary.
    """
    table = np.random.default_rng(0)
    codes = table.integers(0, num_codes, (len(_SYLLABLES), 5, 16))
    durations = table.integers(1, 5, len(_SYLLABLES))
    rng = np.random.default_rng((1, seed))
    texts, frames, labels = [], [], []
    for _ in range(num_utterances):
        words = [
            rng.integers(0, len(_SYLLABLES), rng.integers(1, 4)) for _ in range(rng.integers(2, 13))
        ]
        spoken = np.concatenate(words)
        longer = rng.random(len(spoken)) < 0.3
        lengths = durations[spoken] + longer
        starts = np.repeat(offsets_of(lengths)[:-1], lengths)
        rows = codes[np.repeat(spoken, lengths), np.arange(int(lengths.sum())) - starts]
        varied = rng.random(rows.shape) < np.linspace(0.0, 0.5, 16)
        labels.append(np.repeat(spoken + 1, lengths))
        frames.append(np.where(varied, rng.integers(0, num_codes, rows.shape), rows))
        texts.append(" ".join("".join(_SYLLABLES[i] for i in word) for word in words) + ".")
    return Corpus(
        codes=np.concatenate(frames).astype(np.uint16),
        offsets=offsets_of(np.array([len(rows) for rows in frames])),
        texts=tuple(texts),
        speakers=("babble",) * num_utterances,
        phonemes=np.tile(np.concatenate(labels)[:, None], LABELS_PER_FRAME).astype(np.uint8),
    )


_SYLLABLES = [first + last for first in "bdfgklmnprstvz" for last in "aeiou"]


def unknown_phonemes(num_frames: int) -> NDArray[np.uint8]:
    """Return the labels of frames whose phonemes are not known."""
    return np.full((num_frames, LABELS_PER_FRAME), UNKNOWN, np.uint8)


def frames_of(offsets: Ints, numbers: Ints) -> Ints:
    """Return the frames of utterances, end to end; ``offsets`` are those of all."""
    lengths = offsets[numbers + 1] - offsets[numbers]
    steps = np.arange(int(lengths.sum())) - np.repeat(offsets_of(lengths)[:-1], lengths)
    return np.repeat(offsets[numbers], lengths) + steps


def offsets_of(lengths: Ints) -> Ints:
    """Return the first element of each run, and the end."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def joined(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return rows end to end, and their offsets."""
    lengths = np.array([len(row) for row in rows], np.int64)
    flat = np.fromiter((value for row in rows for value in row), np.int64, int(lengths.sum()))
    return flat, offsets_of(lengths)
