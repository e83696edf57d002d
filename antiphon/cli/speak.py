"""Speech generation into a file or a pipe, with progress on stderr."""

import io
import os
import sys
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rich.console import Console

from antiphon.audio.encode import AudioFormat, open_encoder
from antiphon.audio.wav import num_channels
from antiphon.cli.progress import shown_progress
from antiphon.contracts.types import AudioChunk, SpeechRequest
from antiphon.errors import AntiphonError, InvalidRequestError
from antiphon.offline import Antiphon

if sys.platform != "win32":
    import fcntl

STDOUT = "-"


@dataclass(slots=True)
class SpeakProgress:
    """Progress of the output, and its speed."""

    started_s: float
    first_audio_s: float | None = None
    num_samples: int = 0
    sample_rate_hz: int = 0
    unspoken: tuple[str, ...] = ()

    def add(self, chunk: AudioChunk) -> None:
        if self.first_audio_s is None:
            self.first_audio_s = time.perf_counter() - self.started_s
        self.num_samples += len(chunk.samples)
        self.unspoken += chunk.unspoken
        self.sample_rate_hz = chunk.sample_rate_hz

    def __str__(self) -> str:
        if self.first_audio_s is None:
            return "starting"
        elapsed_s = time.perf_counter() - self.started_s
        audio_s = self.num_samples / self.sample_rate_hz
        return (
            f"{audio_s:.2f} s of audio in {elapsed_s:.2f} s ({audio_s / elapsed_s:.1f} times real"
            f" time), the first after {self.first_audio_s * 1000:.0f} ms"
        )


def speak(
    model: str | None, request: SpeechRequest, *, output: str, format_name: str | None
) -> None:
    """Load a model, speak one text, and write the audio piece by piece.

    Args:
        model: built-in model, directory of a checkpoint, or its ``ORG/NAME`` on the hub; ``None``:
            the model of the settings.
        request: speech request.
        output: path of a file, or ``-`` for stdout.
        format_name: audio format; ``None``: by the file's suffix, and WAV on stdout.

    Raises:
        AntiphonError: No audio was generated, or the file cannot be written.
    """
    format = _format(output, format_name)
    if output == STDOUT and sys.stdout.isatty():
        raise InvalidRequestError("stdout is a terminal. Redirect it, or name a file with -o.")
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        with (
            loaded(model, "audio", console) as antiphon,
            console.status("starting") as status,
            opened(output) as file,
        ):
            progress = SpeakProgress(time.perf_counter())
            for _ in _written(antiphon, request, format, file, progress):
                status.update(str(progress))
            done = str(progress)
    except OSError as error:
        raise AntiphonError(f"Cannot write {output}: {error.strerror or error}.") from error
    target = "stdout" if output == STDOUT else output
    console.print(f"{target}: {done}", markup=False)
    if progress.unspoken:
        words = ", ".join(progress.unspoken)
        console.print(f"Warning: this voice cannot speak, and has left out: {words}", markup=False)


def loaded(model: str | None, output: str, console: Console) -> Antiphon:
    """Load a model for ``output`` ("audio" ...), and show progress."""

    def write_line(line: str) -> None:
        console.print(line, markup=False)

    with shown_progress("loading", write_line) as progress:
        return Antiphon.load(model, progress=progress, outputs=(output,))


def _format(output: str, name: str | None) -> AudioFormat:
    if name is None:
        name = "wav" if output == STDOUT else Path(output).suffix.removeprefix(".").lower()
    if name not in list(AudioFormat):
        raise InvalidRequestError(
            f"Unknown audio format '{name}'. Available: {', '.join(AudioFormat)}."
            " It is the suffix of the file, or --format.",
            param="response_format",
        )
    return AudioFormat(name)


def _written(
    antiphon: Antiphon,
    request: SpeechRequest,
    format: AudioFormat,
    file: BinaryIO,
    progress: SpeakProgress,
) -> Generator[None, None, None]:
    """Write the audio, and yield after each piece; a file that can seek gets its header last."""
    encoder = None
    start = _rewritable_from(file)
    try:
        with closing(antiphon.stream(request)) as chunks:
            for chunk in chunks:
                encoder = encoder or open_encoder(
                    format,
                    chunk.sample_rate_hz,
                    num_channels(chunk.samples),
                    is_whole=start is not None,
                )
                progress.add(chunk)
                file.write(encoder.encode(chunk.samples))
                file.flush()
                yield
        assert encoder is not None, "a stream has at least one chunk"
        file.write(encoder.finish())
        if start is not None:
            file.seek(start)
            file.write(encoder.header)
            file.seek(0, os.SEEK_END)
    finally:
        if encoder is not None:
            encoder.close()


def _rewritable_from(file: BinaryIO) -> int | None:
    """Return where a file begins to be ours; ``None`` if what is written cannot be written again.

    The shell may have given us a file that holds something, with ``>`` around several commands. In
    one that it opened with ``>>``, all that is written goes to the end.
    """
    return file.tell() if file.seekable() and not _appends(file) else None


def _appends(file: BinaryIO) -> bool:
    if sys.platform == "win32":
        return False
    try:
        return bool(fcntl.fcntl(file, fcntl.F_GETFL) & os.O_APPEND)
    except io.UnsupportedOperation:  # it is none of the system's files
        return False


@contextmanager
def opened(output: str) -> Generator[BinaryIO, None, None]:
    """Open the target; a file appears under its name when it is whole, or not at all."""
    if output == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(output).resolve()
    if path.exists() and not path.is_file():  # a pipe or a device
        with path.open("wb") as file:
            yield file
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
