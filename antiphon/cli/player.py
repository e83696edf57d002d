"""Playback of samples as they are generated: by sounddevice, or by a program of the system."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np

from antiphon.audio.encode import open_encoder
from antiphon.contracts.types import Samples
from antiphon.errors import AntiphonError
from antiphon.formats import AudioFormat

Write: TypeAlias = Callable[[Samples], object]
Player: TypeAlias = Callable[[int, int], AbstractContextManager[Write]]
"""Opens playback at a sample rate in Hz with a number of channels; the end of the block waits until
all samples have been played. Raises AntiphonError if that fails."""


def find_player() -> Player | None:
    """Return the first player that is installed; ``None``: this system has none."""
    if find_spec("sounddevice") is not None:
        try:
            import sounddevice  # noqa: F401
        except OSError:  # PortAudio, which it needs, is missing
            pass
        else:
            return _sounddevice
    return next((each for each in _PROGRAMS if shutil.which(each.name)), None)


@contextmanager
def _sounddevice(sample_rate_hz: int, channels: int) -> Generator[Write, None, None]:
    import sounddevice

    try:
        with sounddevice.OutputStream(sample_rate_hz, channels=channels, dtype="float32") as stream:
            # Shape [num_samples, channels], also of one channel.
            yield lambda samples: stream.write(
                np.ascontiguousarray(samples.reshape(len(samples), channels))
            )
    except sounddevice.PortAudioError as error:
        raise _failure("sounddevice", str(error)) from error


@dataclass(frozen=True, slots=True)
class _Program:
    """A program that plays a file, or what it reads from stdin.

    Attributes:
        arguments: further arguments; ``{rate}`` and ``{channels}`` are replaced.
        needs_file: whether it plays files only, whose path is its last argument.
    """

    name: str
    arguments: Sequence[str] = ()
    format: AudioFormat = AudioFormat.WAV
    needs_file: bool = False

    @contextmanager
    def __call__(self, sample_rate_hz: int, channels: int) -> Generator[Write, None, None]:
        encoder = open_encoder(self.format, sample_rate_hz, channels, is_whole=self.needs_file)
        given = {"rate": sample_rate_hz, "channels": channels}
        command = [self.name, *(each.format(**given) for each in self.arguments)]
        if self.needs_file:
            with tempfile.TemporaryDirectory(prefix="antiphon-") as folder:
                path = Path(folder) / f"speech.{self.format}"
                with path.open("wb") as file:
                    yield lambda samples: file.write(encoder.encode(samples))
                    file.write(encoder.finish())
                    file.seek(0)
                    file.write(encoder.header)
                with self._started([*command, str(path)]):
                    pass
            return
        with self._started(command) as pipe:

            def write(samples: Samples) -> None:
                pipe.write(encoder.encode(samples))
                pipe.flush()

            yield write

    @contextmanager
    def _started(self, command: Sequence[str]) -> Generator[IO[bytes], None, None]:
        """Run the program and yield its stdin, which ends with the block."""
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors
            )
            assert process.stdin is not None
            try:
                yield process.stdin
                process.communicate()
            except BrokenPipeError:
                process.wait()
            finally:
                process.kill()  # no-op if it has ended
                process.wait()
                with suppress(BrokenPipeError):  # what it has not read
                    process.stdin.close()
            if process.returncode:
                errors.seek(0)
                lines = errors.read().decode(errors="replace").split("\n")
                reason = next((line for line in lines if line.strip()), "")
                raise _failure(self.name, reason or f"status {process.returncode}")


def _failure(name: str, reason: str) -> AntiphonError:
    return AntiphonError(f"Cannot play with {name}: {reason}. Write a file instead, with -o.")


_PROGRAMS = (
    _Program("afplay", needs_file=True),
    _Program(
        "paplay",
        ("--raw", "--format=s16le", "--rate={rate}", "--channels={channels}"),
        AudioFormat.PCM,
    ),
    _Program(
        "aplay",
        ("-q", "-t", "raw", "-f", "S16_LE", "-r", "{rate}", "-c", "{channels}"),
        AudioFormat.PCM,
    ),
    _Program("ffplay", ("-nodisp", "-autoexit", "-loglevel", "error", "-i", "-")),
)
