"""Recordings to codes: the dataset that a language model is trained on."""

import time
from pathlib import Path

import numpy as np
import torch

from antiphon_training.codec import Codec
from antiphon_training.log import Log
from antiphon_training.shards import HELD_OUT, Shard, shard_files
from antiphon_training.sizes import FRAME_SAMPLES

_BATCH = 32


def encode_folder(codec: Codec, data: Path, folder: Path, seconds: float) -> int:
    """Write ``codes-*.npz`` for each ``audio-*.npz``, and for recordings that were held out.

    Files that exist are left alone, so a run that ran out of time can be continued.

    Returns:
        Frames written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    began, total = time.monotonic(), 0
    for path in [*sorted(data.glob(f"{HELD_OUT}-*.npz")), *shard_files(data, "audio")]:
        target = folder / path.name.replace("audio-", "codes-")
        if target.exists():
            continue
        if time.monotonic() - began > seconds:
            break
        shard = encode_shard(codec, Shard.read(path, "audio"))
        shard.write(target, "codes")
        total += len(shard.rows)
    log = Log(folder / "encode.jsonl")
    log.write(event="encoded", frames=total, elapsed_s=round(time.monotonic() - began, 1))
    return total


def encode_shard(codec: Codec, shard: Shard) -> Shard:
    """Encode each recording as if it were alone, in padded batches of similar lengths.

    The encoder is causal, so what follows a recording does not change its codes.
    """
    device = next(codec.parameters()).device
    lengths = np.diff(shard.offsets)
    order = np.argsort(lengths, kind="stable")
    parts: dict[int, np.ndarray[tuple[int, int], np.dtype[np.uint16]]] = {}
    for first in range(0, len(order), _BATCH):
        picked = order[first : first + _BATCH]
        num_frames = -(-lengths[picked] // FRAME_SAMPLES)
        batch = np.zeros((len(picked), int(num_frames.max()) * FRAME_SAMPLES), np.int16)
        for row, index in enumerate(picked):
            batch[row, : lengths[index]] = shard.part(int(index))
        samples = torch.from_numpy(batch).to(device).float() / 32768
        codes = codec.encode(samples).to(torch.int32).cpu().numpy().astype(np.uint16)
        for row, index in enumerate(picked):
            parts[int(index)] = codes[row, : num_frames[row]]
    ordered = [parts[index] for index in range(len(order))]
    return Shard.of(ordered, shard.texts, shard.speaker)
