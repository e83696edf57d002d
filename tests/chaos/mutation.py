"""Bodies and files that are nearly right: values, members and bytes are exchanged at random."""

import json
import random
from typing import Any

NASTY: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 1e-320, 1e308, -0.0),
    *("", " ", "\x00", "\ud800", "\u202e", "a\r\nb", "é" * 300, "\U0001f600" * 50, "{}", "../x"),
    *([], {}, [None], [[[[]]]], {"": None}, ["a"] * 100, {"a": {"b": {"c": []}}}),
    *("NaN", "1e999", "true", "null", "[pause:99999999s]", "[pause:-1s]", "<speak>", "%s%n"),
)
_RAW = (b"NaN", b"Infinity", b"1e999999", b"\xff\xfe", b'"\\ud83d"', b"\x00", b"[" * 500)
_MAX_SPLICE_BYTES = 64


def mutated_json(seed: random.Random, body: dict[str, Any]) -> bytes:
    """Return a body of which some values or bytes are others than they were."""
    changed: dict[str, Any] = dict(body)
    for _ in range(seed.randint(1, 3)):
        name = seed.choice([*changed, "unknown", seed.choice(["input", "text", "voice"])])
        match seed.randrange(4):
            case 0:
                changed.pop(name, None)
            case 1:
                changed[name] = [changed.get(name)] * seed.randint(0, 5)
            case _:
                changed[name] = seed.choice(NASTY)
    data = json.dumps(changed).encode()
    match seed.randrange(6):
        case 0:
            return mutated_bytes(seed, data)
        case 1:
            at = seed.randrange(len(data))
            return data[:at] + seed.choice(_RAW) + data[at:]
        case _:
            return data


def mutated_bytes(seed: random.Random, data: bytes) -> bytes:
    """Return bytes of which some are flipped, exchanged, left out, said twice or cut off."""
    changed = bytearray(data)
    for _ in range(seed.choice((1, 1, 2, 8, 64))):
        if not changed:
            break
        # A file's beginning says what the rest is: half of the changes are there.
        reach = len(changed) if seed.random() < 0.5 else min(len(changed), 128)
        at = seed.randrange(reach)
        length = seed.randint(1, _MAX_SPLICE_BYTES)
        match seed.randrange(6):
            case 0:
                changed[at] ^= 1 << seed.randrange(8)
            case 1:
                changed[at] = seed.choice((0, 0x7F, 0x80, 0xFF))
            case 2:
                changed[at : at + 4] = seed.choice((b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff"))
            case 3:
                del changed[at : at + length]
            case 4:
                changed[at:at] = changed[at : at + length]
            case 5:
                changed[at : at + length] = seed.randbytes(length)
    if seed.random() < 0.1:
        del changed[seed.randrange(len(changed) + 1) :]
    return bytes(changed)
