"""What the model reads, position by position: to be embedded, or to be hashed for the prefix cache.

Before the first frame it reads the prefix, begin-of-speech and the reference's frames but the
last. A request that was preempted goes on as if the frames that it had made were more of these.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.families.qwen3_tts.config import Qwen3TTSConfig
from antiphon.families.qwen3_tts.prompt_layout import FRAME, SPEAKER, Ids, Qwen3TTSPrompt

Codes: TypeAlias = NDArray[np.int64]

_KEY_BYTES = 8


@dataclass(frozen=True, slots=True, eq=False)
class InputIds:
    """Some positions that follow on each other.

    Attributes:
        text: ids, `NOTHING` for none, int64 ``[num_positions]``.
        codec: ids, or `NOTHING`, `SPEAKER`, `FRAME`, likewise.
        frames: codes of each `FRAME`, in order, int64 ``[num_frames, num_groups]``.
    """

    text: NDArray[np.int64]
    codec: NDArray[np.int64]
    frames: Codes


def no_frames(config: Qwen3TTSConfig) -> Codes:
    """Return codes of no frame, ``[0, num_groups]``."""
    return np.empty((0, config.talker.num_groups), np.int64)


def lead_frames(prompt: Qwen3TTSPrompt, made: Codes) -> Codes:
    """Return the reference's frames and those made, int64 ``[num_frames, num_groups]``."""
    return made if prompt.reference is None else np.concatenate((prompt.reference, made))


def columns_between(
    config: Qwen3TTSConfig,
    prompt: Qwen3TTSPrompt,
    text: Ids,
    lead: Codes,
    start: int,
    end: int,
) -> InputIds:
    """Return positions ``start`` to ``end - 1``.

    Args:
        config: of the checkpoint.
        prompt: the request's.
        text: its text track as it is by now; beside the lead it reaches as far as asked for, or
            it has ended.
        lead: of `lead_frames`.
        start: any position.
        end: at most the last position before the next frame's, plus one.
    """
    num_prefix = len(prompt.prefix)
    assert start < end <= num_prefix + len(lead), "there are no such positions"
    prefix = np.array(prompt.prefix[start:end], np.int64).reshape(-1, 2)
    first, last = max(0, start - num_prefix), max(0, end - num_prefix)
    beside = text[first:last]
    padding = (config.tokens.tts_pad,) * (last - first - len(beside))
    codec = np.full(last - first, FRAME, np.int64)
    if first == 0 < last:
        codec[0] = config.talker.tokens.bos
    return InputIds(
        text=np.concatenate((prefix[:, 0], np.array((*beside, *padding), np.int64))),
        codec=np.concatenate((prefix[:, 1], codec)),
        frames=lead[max(0, first - 1) : max(0, last - 1)],
    )


def position_keys(config: Qwen3TTSConfig, prompt: Qwen3TTSPrompt) -> tuple[int, ...]:
    """Return a 64-bit key for each position before the first frame, as far as it is known.

    Two keys are equal if the model reads the same at their positions, and only then.
    """
    num_known = prompt.num_prefilled
    if prompt.is_open:
        num_known = len(prompt.prefix) + min(len(prompt.text), prompt.num_reference_frames)
    lead = lead_frames(prompt, no_frames(config))
    columns = columns_between(config, prompt, prompt.text, lead, 0, num_known)
    other = np.zeros(num_known, np.uint64)  # what ids do not say
    if prompt.speaker is not None:
        other[columns.codec == SPEAKER] = _digest(prompt.speaker.astype(np.float32))
    digests = [_digest(frame) for frame in columns.frames]
    other[columns.codec == FRAME] = np.array(digests, np.uint64)
    keys = _mixed(_mixed(columns.text.view(np.uint64)) ^ columns.codec.view(np.uint64))
    return tuple(_mixed(keys ^ other).tolist())


def _digest(array: NDArray[np.generic]) -> int:
    digest = blake2b(np.ascontiguousarray(array).tobytes(), digest_size=_KEY_BYTES)
    return int.from_bytes(digest.digest(), "little")


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words; a bijection."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
