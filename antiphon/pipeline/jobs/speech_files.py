"""Writes the files of a job: one for all chapters, or one for each."""

import hashlib
from contextlib import suppress
from pathlib import Path

from antiphon.audio.encode import Encoder, open_encoder
from antiphon.audio.wav import silence
from antiphon.contracts.types import Samples
from antiphon.formats import AudioFormat
from antiphon.pipeline.speech.segment_checkpoint import Spend
from antiphon.storage.blobs import BlobStore
from antiphon.storage.faults import storage_faults
from antiphon.storage.job import JobChapter, JobFile

CHAPTER_PAUSE_S = 1.0
"""Silence between two chapters of one file."""


class JobFiles:
    """The files of one job in the making; blocks, so it belongs in worker threads."""

    def __init__(
        self,
        folder: Path,
        format: AudioFormat,
        sample_rate_hz: int,
        channels: int,
        *,
        is_split: bool,
        spend: Spend,
    ) -> None:
        """Write into a folder of this machine; ``is_split`` begins a file with each chapter."""
        self._spend = spend
        self._folder = folder
        self._format = format
        self._sample_rate_hz = sample_rate_hz
        self._channels = channels
        self._is_split = is_split
        self._file: _File | None = None
        self._done: list[tuple[Path, int]] = []
        self._start = 0
        self.chapters: list[JobChapter] = []

    def begin_chapter(self) -> None:
        """Begin the next chapter; in the same file after a second of silence.

        Raises:
            StorageError: the disk is full, or cannot be used.
        """
        if self._file is None:
            with storage_faults():
                self._folder.mkdir(parents=True, exist_ok=True)
                path = self._folder / f"{len(self._done)}.{self._format}"
                encoder = open_encoder(
                    self._format, self._sample_rate_hz, self._channels, is_whole=True
                )
                self._file = _File(path, encoder, self._spend)
        else:
            self.write_silence(CHAPTER_PAUSE_S)
        self._start = self._file.num_samples

    def write(self, samples: Samples) -> None:
        """Write the chapter's next samples; raises StorageError or EngineError."""
        assert self._file is not None, "a chapter has begun"
        with storage_faults():
            self._file.write(samples)

    def write_silence(self, duration_s: float) -> None:
        """Write silence, at most a second at once; raises as `write` does."""
        num_samples, rate_hz = round(duration_s * self._sample_rate_hz), self._sample_rate_hz
        for start in range(0, num_samples, rate_hz):
            self.write(silence(min(num_samples - start, rate_hz), self._channels))

    def end_chapter(self, title: str | None) -> None:
        """End a chapter, and its file if it has one of its own."""
        assert self._file is not None, "a chapter has begun"
        rate_hz = self._sample_rate_hz
        self.chapters.append(
            JobChapter(
                title=title,
                file=len(self._done),
                start_s=self._start / rate_hz,
                duration_s=(self._file.num_samples - self._start) / rate_hz,
            )
        )
        if self._is_split:
            self._end_file()

    def hand_over(self, media: BlobStore, folder: str) -> tuple[JobFile, ...]:
        """End all files and move them to where they are kept; raises StorageError."""
        if self._file is not None:
            self._end_file()
        with storage_faults():
            return tuple(
                JobFile(
                    key=f"{folder}/{path.name}",
                    media_type=self._format.media_type,
                    sha256=_sha256(path),  # before it is moved
                    num_bytes=media.move_in(path, f"{folder}/{path.name}"),
                    duration_s=num_samples / self._sample_rate_hz,
                )
                for path, num_samples in self._done
            )

    def close(self) -> None:
        """Leave everything as it is; may be called again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _end_file(self) -> None:
        assert self._file is not None
        with storage_faults():
            self._file.finish()
        self._done.append((self._file.path, self._file.num_samples))
        self._file = None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _File:
    def __init__(self, path: Path, encoder: Encoder, spend: Spend) -> None:
        self.path = path
        self._spend = spend
        self.num_samples = 0
        self._encoder = encoder
        self._file = path.open("wb")

    def write(self, samples: Samples) -> None:
        self.num_samples += len(samples)
        self._write(self._encoder.encode(samples))

    def finish(self) -> None:
        self._write(self._encoder.finish())
        self._file.seek(0)
        self._file.write(self._encoder.header)
        self.close()

    def _write(self, content: bytes) -> None:
        if content:
            self._spend(len(content))
            self._file.write(content)

    def close(self) -> None:
        self._encoder.close()
        with suppress(OSError):
            self._file.close()
