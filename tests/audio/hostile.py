"""Audio files made to hurt whoever opens them."""

import struct
import zlib

MANY = 40_000_000


def box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(content), kind) + content


def full_box(kind: bytes, content: bytes, flags: int = 0) -> bytes:
    return box(kind, struct.pack(">I", flags) + content)


def _track(tables: bytes) -> bytes:
    header = full_box(b"tkhd", struct.pack(">5I", 0, 0, 1, 0, 10_000) + bytes(60), flags=7)
    media_header = full_box(b"mdhd", struct.pack(">4I2H", 0, 0, 16_000, 160_000, 0, 0))
    handler = full_box(b"hdlr", bytes(4) + b"soun" + bytes(13))
    sound = struct.pack(">4HI", 1, 16, 0, 0, 16_000 << 16)
    entry = box(b"sowt", bytes(6) + struct.pack(">H", 1) + bytes(8) + sound)
    description = full_box(b"stsd", struct.pack(">I", 1) + entry)
    info = box(b"minf", full_box(b"smhd", bytes(4)) + box(b"stbl", description + tables))
    return box(b"trak", header + box(b"mdia", media_header + handler + info))


def _file(tables: bytes, more_header: bytes = b"", rest: bytes = b"") -> bytes:
    movie = full_box(b"mvhd", struct.pack(">5I", 0, 0, 1000, 10_000, 0x10000) + bytes(80))
    moov = box(b"moov", movie + _track(tables) + more_header)
    return box(b"ftyp", b"M4A " + bytes(4) + b"M4A ") + moov + rest


def mp4_of_untold_samples() -> bytes:
    """500 bytes that say: 40 million samples of one byte. Each costs the demuxer 24 bytes."""
    return _file(
        full_box(b"stts", struct.pack(">3I", 1, MANY, 3))
        + full_box(b"stsc", struct.pack(">4I", 1, 1, MANY, 1))
        + full_box(b"stsz", struct.pack(">2I", 1, MANY))
        + full_box(b"stco", struct.pack(">2I", 1, 400)),
        rest=bytes(8),
    )


def mp4_of_untold_fragments() -> bytes:
    """The same in a fragmented file."""
    empty = b"".join(full_box(kind, bytes(8)) for kind in (b"stts", b"stsc", b"stsz", b"stco"))
    defaults = box(b"mvex", full_box(b"trex", struct.pack(">5I", 1, 1, 1024, 1, 0)))
    header = full_box(b"tfhd", struct.pack(">I", 1), flags=0x20000)
    run = full_box(b"trun", struct.pack(">Ii", MANY, 100), flags=1)
    number = full_box(b"mfhd", struct.pack(">I", 1))
    fragment = box(b"moof", number + box(b"traf", header + run)) + box(b"mdat", bytes(1000))
    return _file(empty, defaults, fragment)


def id3_with_a_huge_picture(num_bytes: int) -> bytes:
    """A tag to put before a file, with a compressed cover of ``num_bytes``."""
    picture = b"\0image/png\0\x03\0\x89PNG\r\n\x1a\n" + bytes(num_bytes)
    content = _seven_bits(len(picture)) + zlib.compress(picture, 9)
    frame = b"APIC" + _seven_bits(len(content)) + struct.pack(">H", 0x0009) + content
    return b"ID3\x04\0\0" + _seven_bits(len(frame)) + frame


def _seven_bits(number: int) -> bytes:
    return bytes((number >> shift) & 0x7F for shift in (21, 14, 7, 0))
