"""Prompt of the language model, and host-side state of a request in a slot."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.chat_types import ChatSampling
from antiphon.contracts.types import Sampling
from antiphon.families.mimo_audio.config import MiMoAudioConfig


@dataclass(frozen=True, slots=True, eq=False)
class MiMoAudioPrompt:
    """Input of the language model.

    Attributes:
        groups: text tokens and groups of codes, int64 ``[num_groups, frame_size]``. The first step
            reads the last one.
        code_sampling: complete sampling parameters of codes.
        writing: complete sampling parameters of a text answer; ``None``: the answer is spoken.
    """

    groups: NDArray[np.int64]
    code_sampling: Sampling
    writing: ChatSampling | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MiMoAudioRequest:
    """Host-side state of a request in a slot.

    Attributes:
        groups: groups of the prompt, followed by those generated before the slot was assigned.
    """

    prompt: MiMoAudioPrompt
    groups: NDArray[np.int64]

    @classmethod
    def of(cls, prompt: MiMoAudioPrompt, frames: NDArray[np.int64]) -> "MiMoAudioRequest":
        """Start a request, or resume it after the groups that it has generated."""
        return cls(prompt, np.concatenate((prompt.groups, frames)))


def text_groups(config: MiMoAudioConfig, ids: list[int]) -> NDArray[np.int64]:
    """Return text tokens as groups without audio."""
    groups = np.empty((len(ids), config.frame_size), np.int64)
    groups[:, 0], groups[:, 1:] = ids, config.empty_group
    return groups


def audio_groups(
    config: MiMoAudioConfig, codes: NDArray[np.int64], empty_id: int
) -> NDArray[np.int64]:
    """Return codes, ``[num_frames, num_channels]``, as groups, padded with the last frame."""
    missing = -len(codes) % config.group_frames
    padded = np.concatenate((codes, np.repeat(codes[-1:], missing, axis=0)))
    groups = np.empty((len(padded) // config.group_frames, config.frame_size), np.int64)
    groups[:, 0], groups[:, 1:] = empty_id, padded.reshape(len(groups), -1)
    return groups


def position_keys(groups: NDArray[np.int64], empty_id: int) -> list[int]:
    """Return a key for each group that identifies its contents."""
    keys = []
    for group in groups:
        key = int(group[0])
        if key == empty_id:
            digest = hashlib.blake2b(group.astype("<i8").tobytes(), digest_size=8).digest()
            key = int.from_bytes(digest, "little") >> 1 | 1 << 62  # larger than any text id
        keys.append(key)
    return keys
