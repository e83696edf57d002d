"""Reads and writes the few parts of protocol buffers that changing an ONNX file takes."""

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def fields(buffer: memoryview) -> Iterator[tuple[int, memoryview | None, memoryview]]:
    """Yield each field of a message: its number, its content if it has a length, and all of it.

    Raises:
        IndexError: the message is cut off, or none.
    """
    place = 0
    while place < len(buffer):
        start, content = place, None
        key, place = _varint(buffer, place)
        kind = key & 7
        if kind == _VARINT:
            _, place = _varint(buffer, place)
        elif kind in (_FIXED64, _FIXED32):
            place += 8 if kind == _FIXED64 else 4
        elif kind == _BYTES:
            length, place = _varint(buffer, place)
            content = buffer[place : place + length]
            place += length
        else:
            raise IndexError(f"a field of the unknown kind {kind}")
        if place > len(buffer):
            raise IndexError("a field is cut off")
        yield key >> 3, content, buffer[start:place]


def _varint(buffer: memoryview, place: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and the place behind it."""
    value = shift = 0
    while True:
        byte = buffer[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def field(number: int, content: bytes | str) -> bytes:
    """Return a field of bytes, of text, or of a message."""
    content = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 | _BYTES]) + _as_varint(len(content)) + content


def _as_varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def number_field(number: int, value: int) -> bytes:
    """Return a field of a whole number, not negative."""
    return bytes([number << 3 | _VARINT]) + _as_varint(value)
