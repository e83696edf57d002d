"""Reader of a WAV file as it arrives; its header holds format and length."""

import struct
from dataclasses import dataclass

from antiphon_bench.bodies import BYTES_PER_SAMPLE, BodyError, PcmBody, TruncatedError

_LONGEST_HEADER_BYTES = 65_536
_LONGEST_REST_BYTES = 65_536
_UNKNOWN_FROM_BYTES = 1 << 30
"""From here on a length stands for one that was not known when the stream began, as 0 does."""
_CHUNK_HEAD = 8
_FORMAT = struct.Struct("<HHIIHH")
_PCM, _EXTENSIBLE = 1, 0xFFFE


@dataclass(slots=True)
class WavBody(PcmBody):
    """16-bit samples behind a RIFF header, and perhaps further chunks behind them."""

    _head: bytes | None = b""
    _size: int | None = None
    _left: int = 0
    _rest: bytes = b""

    def feed(self, data: bytes) -> None:
        if self._head is not None:
            self._head += data
            begin = self._begin_of_samples(self._head)
            if begin is None:
                if len(self._head) > _LONGEST_HEADER_BYTES:
                    raise BodyError("No audio is where a WAV file has it")
                return
            data, self._head = self._head[begin:], None
        if self._size is None:
            PcmBody.feed(self, data)
            return
        samples, behind = data[: self._left], data[self._left :]
        self._left -= len(samples)
        PcmBody.feed(self, samples)
        self._rest += behind[: _LONGEST_REST_BYTES - len(self._rest)]

    def end(self) -> None:
        if self._head is not None and self._head:
            raise TruncatedError("The answer ends within the header of a WAV file")
        if self._size is not None and self._left:
            came = self._size - self._left
            raise TruncatedError(
                f"The WAV header announces {self._size} bytes of audio; {came} came"
            )
        PcmBody.end(self)
        if not _is_chunks(self._rest):
            raise BodyError(f"The WAV header announces {self._size} bytes of audio; more came")

    def _begin_of_samples(self, head: bytes) -> int | None:
        """Return where samples begin, and store the header's format; ``None``: not there yet."""
        if head[:4] != b"RIFF"[: len(head)] or head[8:12] != b"WAVE"[: len(head[8:12])]:
            raise BodyError("The answer is no WAV file")
        at, has_format = 12, False
        while len(head) >= at + _CHUNK_HEAD:
            name, size = head[at : at + 4], int.from_bytes(head[at + 4 : at + 8], "little")
            begin = at + _CHUNK_HEAD
            if name == b"data":
                if not has_format:
                    raise BodyError("The WAV file does not name its format")
                if 0 < size < _UNKNOWN_FROM_BYTES:
                    self._size = self._left = size
                return begin
            at = begin + size + size % 2
            if name == b"fmt " and len(head) >= at:
                self._take_format(head[begin:at])
                has_format = True
        return None

    def _take_format(self, chunk: bytes) -> None:
        if len(chunk) < _FORMAT.size:
            raise BodyError("The format of the WAV file is cut")
        tag, channels, rate_hz, _, _, bits = _FORMAT.unpack_from(chunk)
        if tag == _EXTENSIBLE and len(chunk) >= _FORMAT.size + 10:
            tag = int.from_bytes(chunk[24:26], "little")
        if tag != _PCM or bits != 8 * BYTES_PER_SAMPLE or not channels or not rate_hz:
            raise BodyError(f"WAV of format {tag}, {bits} bits, {channels} channels came")
        self.channels, self.rate_hz = channels, rate_hz


def _is_chunks(data: bytes) -> bool:
    """Whether these bytes are whole chunks of RIFF; one byte that fills up to an even place may
    stand before them.
    """
    data = data[1:] if data[:1] == b"\0" else data
    while data:
        name, size = data[:4], int.from_bytes(data[4:8], "little")
        if len(data) < _CHUNK_HEAD or not (name.isascii() and name.decode().isprintable()):
            return False
        if len(data) < _CHUNK_HEAD + size:
            return False
        data = data[_CHUNK_HEAD + size + size % 2 :]
    return True
