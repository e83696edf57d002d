"""Lessons of a folder of codes, also of shards that appear while a training goes on."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from antiphon_training.language_model.batches import Lesson
from antiphon_training.language_model.corpus import Corpus
from antiphon_training.language_model.tokenizer import Vocabulary
from antiphon_training.shards import shard_files

_SHARDS_AT_ONCE = 400


@dataclass(frozen=True, slots=True)
class Passages:
    """Utterances of several recordings.

    Attributes:
        share: their number, relative to that of recordings.
        max_frames: longest one.
    """

    share: float
    max_frames: int


class NewShards:
    """Reads shards in a thread of its own, without those that `read` has returned before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: set[Path] = set()
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future[Lesson | None] | None = None

    def read(self, most: int | None = None) -> Corpus | None:
        """Return recordings of new shards, ``most`` at once; ``None``: there is none."""
        files = [file for file in shard_files(self._folder, "codes") if file not in self._known]
        files = files[:most]
        self._known.update(files)
        return Corpus.read(files) if files else None

    def take(
        self, vocabulary: Vocabulary, rng: np.random.Generator, passages: Passages
    ) -> Lesson | None:
        """Return the next lesson if it has been read meanwhile."""

        def read() -> Lesson | None:
            corpus = self.read(_SHARDS_AT_ONCE)
            return None if corpus is None else taught_lesson(corpus, vocabulary, rng, passages)

        pending = self._pending
        if pending is not None and not pending.done():
            return None
        self._pending = self._thread.submit(read)
        return None if pending is None else pending.result()


def taught_lesson(
    corpus: Corpus, vocabulary: Vocabulary, rng: np.random.Generator, passages: Passages
) -> Lesson:
    """Return the lesson of a corpus, without what is held out."""
    taught = corpus.chosen(np.flatnonzero(~corpus.held_out()))
    both = taught.with_passages(rng, passages.share, passages.max_frames)
    return Lesson.of(both, vocabulary, len(taught.texts))


class DeviceCorpus:
    """Codes and phonemes of lessons in the memory of a device, which never moves.

    Attributes:
        codes: int16 ``[capacity, groups]``.
        phonemes: uint8 ``[capacity, labels]``.
    """

    def __init__(self, corpus: Corpus, device: torch.device, capacity: int = 0) -> None:
        """Store a corpus; leave room for ``capacity`` frames in all."""
        length = max(len(corpus.codes), capacity)
        self.codes = torch.zeros(length, corpus.codes.shape[1], dtype=torch.int16, device=device)
        self.phonemes = torch.zeros(
            length, corpus.phonemes.shape[1], dtype=torch.uint8, device=device
        )
        self._num_frames = 0
        self.add(corpus)

    def add(self, corpus: Corpus) -> None:
        """Store further frames behind those that are there."""
        start, end = self._num_frames, self._num_frames + len(corpus.codes)
        self.codes[start:end] = torch.from_numpy(corpus.codes.astype(np.int16))
        self.phonemes[start:end] = torch.from_numpy(corpus.phonemes)
        self._num_frames = end
