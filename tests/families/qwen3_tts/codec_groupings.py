"""The same codes decoded in many groupings, each compared with a frame at a time.

    python -m tests.families.qwen3_tts.codec_groupings --random-dir /dev/shm/random --seconds 60

Passes have any streams in any slots, with chunks of any sizes. An H200 decodes 1.5 million frames a
minute so; a kernel that reads shared memory too early shows in one frame of 9,000.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.codec.protocol import PendingAudio, StreamingDecoder
from antiphon.contracts.types import Samples
from antiphon.engine.plan import CodecChunk
from antiphon.families.qwen3_tts.codec import load_codec
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon_bench.machine import provenance, shown_command
from tests.bench.peer import weights_of
from tests.families.whole_checkpoints import context_of

_LARGEST_CHUNKS = (1, 2, 4, 8, 16)
_MAX_IN_FLIGHT = 2


class Streams:
    """Streams of random codes, and the decoder that they are given to."""

    def __init__(self, decoder: StreamingDecoder, codes: NDArray[np.int64]) -> None:
        """Begin with codes ``[num_streams, num_frames, num_quantizers]``."""
        self._decoder = decoder
        self._codes = codes
        self._num_frames = codes.shape[1]
        self._state = decoder.open(len(codes))

    def decode(self, rng: np.random.Generator, *, largest_chunk: int) -> dict[int, Samples]:
        num_streams = len(self._codes)
        slots = rng.permutation(num_streams)[: rng.integers(1, num_streams + 1)]
        streams = rng.permutation(num_streams)[: len(slots)]
        store = self._stored(slots, streams)
        for slot in slots.tolist():
            self._decoder.reset(self._state, slot)
        done = dict.fromkeys(slots.tolist(), 0)
        chunks: dict[int, list[Samples]] = {slot: [] for slot in done}
        in_flight: list[PendingAudio] = []
        while live := [slot for slot, number in done.items() if number < self._num_frames]:
            rng.shuffle(live)
            part = [
                self._chunk(slot, done[slot], int(rng.integers(1, largest_chunk + 1)))
                for slot in live[: rng.integers(1, len(live) + 1)]
            ]
            in_flight.append(self._decoder.launch(part, store, self._state))
            for chunk in part:
                done[chunk.slot] += chunk.num_frames
            while len(in_flight) > _MAX_IN_FLIGHT:
                _take(in_flight.pop(0), chunks)
        for pending in in_flight:
            _take(pending, chunks)
        of_slot = dict(zip(slots.tolist(), streams.tolist(), strict=True))
        return {of_slot[slot]: np.concatenate(each) for slot, each in chunks.items()}

    def _chunk(self, slot: int, start: int, wanted: int) -> CodecChunk:
        return CodecChunk(slot, start, min(wanted, self._num_frames - start))

    def _stored(self, slots: NDArray[np.int64], streams: NDArray[np.int64]) -> Tensor:
        store = np.zeros_like(self._codes)
        store[slots] = self._codes[streams]
        return torch.from_numpy(store).to("cuda")


def _take(pending: PendingAudio, chunks: dict[int, list[Samples]]) -> None:
    for slot, samples in pending.result().items():
        chunks[slot].append(samples)


def compare(path: Path, seconds: float, num_streams: int = 64) -> dict[str, Any]:
    """Decode for some seconds; return how many frames were compared and which streams differed."""
    decoder = load_codec(context_of(path, "cuda", dtype="bfloat16", max_slots=num_streams))
    size = (num_streams, num_frames := 64, load_config(path).codec.num_quantizers)
    streams = Streams(decoder, np.random.default_rng(0).integers(0, 2048, size))
    reference: dict[int, Samples] = {}
    rng = np.random.default_rng(1)
    while len(reference) < num_streams:
        reference |= streams.decode(rng, largest_chunk=1)
    began_s, num_compared, different = time.monotonic(), 0, list[tuple[int, int]]()
    while time.monotonic() - began_s < seconds:
        decoded = streams.decode(rng, largest_chunk=int(rng.choice(_LARGEST_CHUNKS)))
        for stream, samples in decoded.items():
            num_compared += num_frames
            if not np.array_equal(samples, reference[stream]):
                first = int(np.flatnonzero(samples != reference[stream])[0])
                different.append((stream, first // decoder.samples_per_frame))
    return {"num_frames": num_compared, "different": different}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit with 1 if any sample differed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random-dir", type=Path, required=True)
    parser.add_argument("--size", default="1.7b")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    path = weights_of(given, "qwen3_tts", "custom_voice")
    found = compare(path, given.seconds)
    report = {
        **provenance(),
        "kind": "codec groupings",
        "command": shown_command(sys.argv[1:]),
        **found,
    }
    print(json.dumps(found))  # noqa: T201 - a command
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    sys.exit(int(bool(found["different"])))


if __name__ == "__main__":
    main()
