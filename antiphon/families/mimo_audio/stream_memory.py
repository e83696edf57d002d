"""Memory per stream in the decoder of the audio tokenizer."""

from antiphon.engine.kv_memory import SLOT_RESERVE_BYTES
from antiphon.families.mimo_audio.config import PASS_GROUPS, AudioTokenizerConfig, NetConfig

_FLOAT_BYTES, _HALF_BYTES = 4, 2


def stream_bytes(config: AudioTokenizerConfig, *, is_exact: bool) -> int:
    """Return the size of a stream's ring buffers, which are nearly all of its state.

    Args:
        config: configuration of the tokenizer.
        is_exact: whether keys and values are float32 rather than float16.
    """
    stacks = (
        (config.decoder, PASS_GROUPS * config.group_positions),
        (config.vocoder, PASS_GROUPS * config.group_mels),
    )
    total = 0
    for net, num_positions in stacks:
        before, right = _window(net)
        width = 2 * net.num_layers * net.hidden_size
        item = _FLOAT_BYTES if is_exact else _HALF_BYTES
        total += width * (before + right + num_positions) * item
        total += width * (right + num_positions) * _FLOAT_BYTES if right else 0
    return total


def reserved_bytes(config: AudioTokenizerConfig, num_slots: int, *, is_exact: bool) -> int:
    """Return the memory of all slots and of padding beyond the usual reserve."""
    beyond = stream_bytes(config, is_exact=is_exact) - SLOT_RESERVE_BYTES
    return max(0, beyond) * (num_slots + 1)


def _window(net: NetConfig) -> tuple[int, int]:
    assert net.left is not None, "its window is bounded"
    assert net.right is not None, "its window is bounded"
    return net.left, net.right
