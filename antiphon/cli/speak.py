"""Speech generation to a player, a file or a pipe, with progress on stderr."""

import io
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from rich.console import Console

from antiphon.audio.encode import open_encoder
from antiphon.audio.wav import num_channels
from antiphon.cli.player import Player, Write, find_player
from antiphon.cli.progress import shown_progress
from antiphon.cli.remote import RemoteServer
from antiphon.cli.remote_tasks import remote_speech
from antiphon.contracts.types import AudioChunk, SpeechRequest
from antiphon.errors import AntiphonError, InvalidRequestError, how_to_install
from antiphon.formats import AudioFormat
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
    ended_s: float | None = None

    def add(self, chunk: AudioChunk) -> None:
        if self.first_audio_s is None:
            self.first_audio_s = time.perf_counter() - self.started_s
        self.num_samples += len(chunk.samples)
        self.unspoken += chunk.unspoken
        self.sample_rate_hz = chunk.sample_rate_hz

    @property
    def duration_s(self) -> float:
        """Length of the audio so far; there is some."""
        return self.num_samples / self.sample_rate_hz

    @property
    def latency(self) -> str:
        assert self.first_audio_s is not None
        return f"the first after {self.first_audio_s * 1000:.0f} ms"

    def __str__(self) -> str:
        elapsed_s = (self.ended_s or time.perf_counter()) - self.started_s
        rate = f"{self.duration_s / elapsed_s:.1f} times real time"
        return f"{self.duration_s:.2f} s of audio in {elapsed_s:.2f} s ({rate}), {self.latency}"


@dataclass(frozen=True, slots=True)
class ResultSource:
    """Where a command's results come from: a model in this process, or a running server.

    Attributes:
        model: built-in model, directory of a checkpoint, or its ``ORG/NAME`` on the hub; with a
            server, the name of one of its models; ``None``: the model of the settings, or the
            server's first.
        url: address of a server; ``None``: this process.
    """

    model: str | None
    url: str | None = None
    api_key: str | None = None

    @property
    def server(self) -> RemoteServer | None:
        return None if self.url is None else RemoteServer(self.url, self.api_key)


def speak(
    source: ResultSource, request: SpeechRequest, output: str | None, name: str | None
) -> None:
    """Speak one text, and play or write the audio piece by piece; raises AntiphonError.

    Args:
        output: path of a file, or ``-`` for stdout; ``None``: it is played if stdout is a terminal
            and anything can play, and otherwise written to ``speech.wav``.
        name: audio format; ``None``: by the file's suffix, and WAV on stdout.
    """
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    may_play = output is None and name is None and sys.stdout.isatty()
    player = find_player() if may_play else None
    if may_play and player is None:
        console.print(f"Nothing here can play. To listen, {how_to_install('play')}", markup=False)
    if player is not None:
        progress = _spoken(source, request, console, partial(_played, player))
        console.print(f"{progress.duration_s:.2f} s of audio, {progress.latency}", markup=False)
    else:
        output = output or f"speech.{name or 'wav'}"
        format = _format(output, name)
        with writing_to(output) as target:
            progress = _spoken(source, request, console, partial(_written, output, format))
        console.print(f"{target}: {progress}", markup=False)
    if progress.unspoken:
        words = ", ".join(progress.unspoken)
        console.print(f"Warning: this voice cannot speak, and has left out: {words}", markup=False)


def _spoken(
    source: ResultSource,
    request: SpeechRequest,
    console: Console,
    consume: Callable[[Iterable[AudioChunk]], None],
) -> SpeakProgress:
    """Load a model or reach a server, and have its audio consumed; show progress meanwhile."""
    with ExitStack() as stack:
        if (server := source.server) is not None:
            chunks = remote_speech(server, replace(request, model=source.model))
        else:
            antiphon = stack.enter_context(loaded(source.model, "audio", console))
            chunks = antiphon.stream(request)
        stack.enter_context(closing(chunks))
        status = stack.enter_context(console.status("starting"))
        progress = SpeakProgress(time.perf_counter())

        def followed() -> Generator[AudioChunk, None, None]:
            for chunk in chunks:
                progress.add(chunk)
                yield chunk
                status.update(str(progress))

        consume(followed())
        progress.ended_s = time.perf_counter()
    return progress


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


def _played(player: Player, chunks: Iterable[AudioChunk]) -> None:
    with ExitStack() as stack:
        write: Write | None = None
        for chunk in chunks:
            if write is None:
                playback = player(chunk.sample_rate_hz, num_channels(chunk.samples))
                write = stack.enter_context(playback)
            write(chunk.samples)


def _written(output: str, format: AudioFormat, chunks: Iterable[AudioChunk]) -> None:
    """Write each piece as it comes; a file that can seek gets its header last."""
    encoder = None
    with opened(output) as file:
        start = _rewritable_from(file)
        try:
            for chunk in chunks:
                encoder = encoder or open_encoder(
                    format,
                    chunk.sample_rate_hz,
                    num_channels(chunk.samples),
                    is_whole=start is not None,
                )
                file.write(encoder.encode(chunk.samples))
                file.flush()
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
def writing_to(output: str) -> Generator[str, None, None]:
    """Yield a target's name; refuse terminals, and files that cannot be written."""
    if output == STDOUT and sys.stdout.isatty():
        raise InvalidRequestError("stdout is a terminal. Redirect it, or name a file with -o.")
    try:
        yield "stdout" if output == STDOUT else output
    except OSError as error:
        raise AntiphonError(f"Cannot write {output}: {error.strerror or error}.") from error


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
