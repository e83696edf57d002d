"""Messages of a connection as bytes, and back.

A message is a head (its length, kind, form, number of separate buffers, and the id of a call or
stream), a body, and the separate buffers, each after a padding to 16 bytes from the message's
beginning. Audio, of which there is most, has a form of its own: a few numbers, the rest of the
chunk pickled if there is any, and the samples.
"""

import pickle
import struct
import sys
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np

from antiphon.contracts.types import AudioChunk
from antiphon.fabric.wire.safe_pickle import ForeignDataError, dumps, loads

Buffer: TypeAlias = bytes | memoryview
_ALIGNMENT = 16
_HEAD = struct.Struct("<IBBHQ")  # bytes in all, kind, form, number of buffers, id
_AUDIO = struct.Struct("<IIIII")  # sample rate, frames, samples, channels (0: one dimension), rest
_NUMBER = struct.Struct("<I")
_REST = _HEAD.size + _AUDIO.size  # where the rest of a chunk begins
_IS_LITTLE = sys.byteorder == "little"
_FLOAT32 = np.dtype(np.float32)


class MessageKind(IntEnum):
    """Kinds of messages; all but the first three answer or continue a call or stream."""

    CALL = 1  # (method, arguments), wants a RESULT or an ERROR
    OPEN = 2  # (method, arguments, credits), wants ITEMs and an END or an ERROR
    NOTICE = 3  # (method, arguments), wants nothing
    RESULT = 4
    ERROR = 5
    ITEM = 6
    END = 7
    CREDIT = 8  # how many further items of a stream are wanted
    CLOSE = 9  # of a stream or a call: nothing more of it is wanted


class _Form(IntEnum):
    PICKLE = 0
    NOTHING = 1
    NUMBER = 2
    AUDIO = 3


Message: TypeAlias = tuple[MessageKind, int, Any]
"""Kind, id (0 for a notice), value."""

_AUDIO_FORM = int(_Form.AUDIO)
_KINDS = {int(kind): kind for kind in MessageKind}


def encode(kind: MessageKind, id: int, value: object = None) -> tuple[int, list[Buffer]]:
    """Return a message's length and its bytes in pieces, of which large ones are not copied.

    Raises:
        ForeignDataError: the value must not cross a connection.
    """
    if type(value) is AudioChunk and _is_plain(value):
        return _encode_audio(kind, id, value)
    if value is None:
        return _HEAD.size, [_HEAD.pack(_HEAD.size, kind, _Form.NOTHING, 0, id)]
    if type(value) is int and kind is MessageKind.CREDIT:
        num_bytes = _HEAD.size + _NUMBER.size
        head = _HEAD.pack(num_bytes, kind, _Form.NUMBER, 0, id)
        return num_bytes, [head + _NUMBER.pack(value)]
    found: list[pickle.PickleBuffer] = []
    body = dumps(value, found.append)
    return _join(kind, id, body, [buffer.raw() for buffer in found])


def _is_plain(chunk: AudioChunk) -> bool:
    samples = chunk.samples
    return _IS_LITTLE and samples.dtype is _FLOAT32 and samples.flags.c_contiguous


def _encode_audio(kind: MessageKind, id: int, chunk: AudioChunk) -> tuple[int, list[Buffer]]:
    samples = chunk.samples
    channels = 0 if samples.ndim == 1 else samples.shape[1]
    rest = b""
    if chunk.words or chunk.unspoken or chunk.frames:
        rest = dumps((chunk.words, chunk.unspoken, chunk.frames))
    num_bytes = _HEAD.size + _AUDIO.size + len(rest) + samples.nbytes
    head = _HEAD.pack(num_bytes, kind, _AUDIO_FORM, 0, id)
    head += _AUDIO.pack(chunk.sample_rate_hz, chunk.num_frames, len(samples), channels, len(rest))
    return num_bytes, [head + rest, samples.data.cast("B") if samples.size else b""]


def _join(
    kind: MessageKind, id: int, body: bytes, buffers: Sequence[memoryview]
) -> tuple[int, list[Buffer]]:
    """Put a pickle and its separate buffers together; the table of their lengths comes first."""
    if len(buffers) > 0xFFFF:
        raise ForeignDataError(f"{len(buffers)} large arrays in one message are too many")
    table = struct.pack(f"<I{len(buffers)}Q", len(body), *(each.nbytes for each in buffers))
    pieces: list[Buffer] = [b"", body]
    num_bytes = _HEAD.size + len(table) + len(body)
    for buffer in buffers:
        padding = -num_bytes % _ALIGNMENT
        pieces += [bytes(padding), buffer]
        num_bytes += padding + buffer.nbytes
    if num_bytes > 0xFFFFFFFF:
        raise ForeignDataError(f"a message of {num_bytes} bytes is too long")
    pieces[0] = _HEAD.pack(num_bytes, kind, _Form.PICKLE, len(buffers), id) + table
    return num_bytes, pieces


def length_at(view: memoryview, begin: int) -> int:
    """Return the length of the message that begins there; raises ForeignDataError."""
    if len(view) - begin < _HEAD.size:
        raise ForeignDataError("a message is cut off")
    num_bytes: int = _NUMBER.unpack_from(view, begin)[0]
    if num_bytes < _HEAD.size:
        raise ForeignDataError("a message is shorter than its head")
    return num_bytes


def decode(view: memoryview, *, is_owned: bool = False) -> Message:
    """Return a message; raises ForeignDataError.

    Args:
        view: the whole of it.
        is_owned: whether arrays may refer to ``view`` for ever; otherwise they are copied.
    """
    try:
        num_bytes, kind, form, num_buffers, id = _HEAD.unpack_from(view)
        if num_bytes != len(view):
            raise ForeignDataError("a message's length is wrong")
        if form == _AUDIO_FORM:
            return _KINDS[kind], id, _decode_audio(view)
        body = view[_HEAD.size :]
        return _KINDS[kind], id, _value(form, num_buffers, body, is_owned=is_owned)
    except (struct.error, KeyError, ValueError, OverflowError) as error:
        raise ForeignDataError(f"a message is damaged: {error}") from error


def _value(form: int, num_buffers: int, body: memoryview, *, is_owned: bool) -> Any:
    match form:
        case _Form.NUMBER:
            return _NUMBER.unpack(body)[0]
        case _Form.NOTHING:
            return None
        case _Form.PICKLE:
            return _decode_pickle(num_buffers, body, is_owned=is_owned)
        case _:
            raise ForeignDataError(f"a message has an unknown form, {form}")


def _decode_audio(view: memoryview) -> AudioChunk:
    rate_hz, num_frames, num_samples, channels, num_rest_bytes = _AUDIO.unpack_from(
        view, _HEAD.size
    )
    begin = _REST + num_rest_bytes
    samples = np.frombuffer(bytearray(view[begin:]), _FLOAT32)
    if channels:
        samples = samples.reshape(num_samples, channels)
    if len(samples) != num_samples:
        raise ForeignDataError("a chunk's length is wrong")
    if not num_rest_bytes:
        return AudioChunk(samples, rate_hz, num_frames)
    return AudioChunk(samples, rate_hz, num_frames, *loads(view[_REST:begin]))


def _decode_pickle(num_buffers: int, body: memoryview, *, is_owned: bool) -> Any:
    table = struct.Struct(f"<I{num_buffers}Q")
    length, *lengths = table.unpack_from(body)
    begin = table.size
    pickled = body[begin : begin + length]
    position = _HEAD.size + begin + length  # from the message's beginning
    buffers: list[memoryview | bytearray] = []
    for num_bytes in lengths:
        position += -position % _ALIGNMENT
        part = body[position - _HEAD.size :][:num_bytes]
        if len(part) != num_bytes:
            raise ForeignDataError("a message is cut off")
        buffers.append(part if is_owned else bytearray(part))
        position += num_bytes
    return loads(pickled, buffers)
