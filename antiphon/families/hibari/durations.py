"""Phoneme durations: the network computes them and gets a further output for them.

A network's file is a protocol buffer; two of them, one behind the other, are read as one. So a few
bytes that name an output, put behind the file, add that output to the network.
"""

_DURATIONS = b"/Clip_output_0"
_MODEL_GRAPH, _GRAPH_OUTPUT, _VALUE_NAME = 7, 12, 1


def with_durations(network: bytes) -> bytes:
    """Return a network's file with durations as its last output, if the network knows them."""
    if _DURATIONS not in network:
        return network
    name = _field(_VALUE_NAME, _DURATIONS)
    return network + _field(_MODEL_GRAPH, _field(_GRAPH_OUTPUT, name))


def _field(number: int, content: bytes) -> bytes:
    assert len(content) < 128, "its length is one byte"
    return bytes([number << 3 | 2, len(content)]) + content
