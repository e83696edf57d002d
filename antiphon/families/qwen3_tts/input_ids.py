"""Model input by position, for embedding or for the keys of the prefix cache.

Before the first frame come the prefix, begin-of-speech and the reference's frames except the last.
A preempted request resumes as if its generated frames were further reference frames.
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
    """Consecutive positions.

    Attributes:
        text: text ids, or `NOTHING`, int64 ``[num_positions]``.
        codec: codec ids, or `NOTHING`, `SPEAKER` or `FRAME`, int64 ``[num_positions]``.
        frames: codes of each `FRAME`, in order, int64 ``[num_frames, num_groups]``.
    """

    text: NDArray[np.int64]
    codec: NDArray[np.int64]
    frames: Codes


def no_frames(config: Qwen3TTSConfig) -> Codes:
    """Return codes without frames, ``[0, num_groups]``."""
    return np.empty((0, config.talker.num_groups), np.int64)


def lead_frames(prompt: Qwen3TTSPrompt, made: Codes) -> Codes:
    """Return the reference's frames and the generated ones, int64 ``[num_frames, num_groups]``."""
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
        config: configuration of the checkpoint.
        prompt: prompt of the request.
        text: text track so far; beside the lead it covers the positions, or has ended.
        lead: result of `lead_frames`.
        start: first position.
        end: position after the last one, at most that of the next frame.
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
    """Return a 64-bit key for each known position before the first frame.

    Keys are equal if and only if the model's input at their positions is equal.
    """
    num_known = prompt.num_prefilled
    if prompt.is_open:
        num_known = len(prompt.prefix) + min(len(prompt.text), prompt.num_reference_frames)
    lead = lead_frames(prompt, no_frames(config))
    columns = columns_between(config, prompt, prompt.text, lead, 0, num_known)
    other = np.zeros(num_known, np.uint64)  # input beside ids
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
