"""Recordings to codes: the dataset that a language model is trained on."""

import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.multiprocessing.spawn import spawn

from antiphon_training.codec import Codec
from antiphon_training.codec_run import load_codec
from antiphon_training.log import Log, shown_bar
from antiphon_training.shards import HELD_OUT, Shard, shard_files
from antiphon_training.sizes import FRAME_SAMPLES

_BATCH_FRAMES = 2000
_LOOK_AGAIN_S = 2.0
_WIDTH_FRAMES = 8
"""Lengths of batches are multiples of it: each length takes memory of its own on a GPU."""

Ints = NDArray[np.int64]


def encode_in_processes(
    num_processes: int,
    checkpoint: Path,
    device: torch.device | None,
    data: Path,
    folder: Path,
    seconds: float,
    follow: bool = False,
) -> None:
    """Do as `encode_folder` in several processes: reading files takes longest.

    Args:
        num_processes: number of processes.
        checkpoint: codec's checkpoint.
        device: device of all processes; ``None``: they share the GPUs there are.
        data: folder of the recordings.
        folder: folder to be written.
        seconds: time after which no further file is begun.
        follow: whether to wait for further recordings until then.
    """
    arguments = (num_processes, checkpoint, device, data, folder, seconds, follow)
    spawn(_encode_part, arguments, nprocs=num_processes)  # type: ignore[no-untyped-call]


def _encode_part(
    part: int,
    num_parts: int,
    checkpoint: Path,
    device: torch.device | None,
    data: Path,
    folder: Path,
    seconds: float,
    follow: bool,
) -> None:
    torch.set_num_threads(1)
    num_gpus = torch.cuda.device_count()
    if device is None:
        device = torch.device(f"cuda:{part % num_gpus}" if num_gpus else "cpu")
    codec = load_codec(checkpoint, device)
    encode_folder(codec, data, folder, seconds, part, num_parts, follow=follow)


def encode_folder(
    codec: Codec,
    data: Path,
    folder: Path,
    seconds: float,
    part: int = 0,
    num_parts: int = 1,
    *,
    follow: bool = False,
) -> int:
    """Write ``codes-*.npz`` for each ``audio-*.npz``, and for recordings that were held out.

    Files that exist are left alone, so a run that ran out of time can be continued.

    Args:
        codec: codec in use.
        data: folder of the recordings.
        folder: folder to be written.
        seconds: time after which no further file is begun.
        part: number of the part of the files to be encoded, of ``num_parts``.
        follow: whether to wait for further recordings until time is up.

    Returns:
        Frames written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    began, total = time.monotonic(), 0
    with shown_bar("codes", part == 0) as show:
        while True:
            missing = _missing(data, folder, part, num_parts)
            for number, path in enumerate(missing):
                elapsed_s = time.monotonic() - began
                show(max(0.0 if follow else number / len(missing), elapsed_s / seconds))
                if elapsed_s > seconds:
                    break
                shard = encode_shard(codec, Shard.read(path, "audio"))
                shard.write(folder / _coded_name(path), "codes")
                total += len(shard.rows)
            if not follow or time.monotonic() - began > seconds:
                break
            time.sleep(_LOOK_AGAIN_S)
    log = Log(folder / "encode.jsonl")
    log.write(event="encoded", frames=total, elapsed_s=round(time.monotonic() - began, 1))
    return total


def _missing(data: Path, folder: Path, part: int, num_parts: int) -> list[Path]:
    """Return the recordings of this part that have no codes yet."""
    paths = [*sorted(data.glob(f"{HELD_OUT}-*.npz")), *shard_files(data, "audio")]
    own = (each for each in paths if zlib.crc32(each.name.encode()) % num_parts == part)
    return [each for each in own if not (folder / _coded_name(each)).exists()]


def _coded_name(path: Path) -> str:
    return path.name.replace("audio-", "codes-")


def encode_shard(codec: Codec, shard: Shard) -> Shard:
    """Encode each recording as if it were alone, in padded batches of similar lengths.

    The encoder is causal, so what follows a recording does not change its codes.
    """
    device = next(codec.parameters()).device
    lengths = np.diff(shard.offsets)
    order = np.argsort(lengths, kind="stable")
    parts: dict[int, np.ndarray[tuple[int, int], np.dtype[np.uint16]]] = {}
    for picked in _batches(order, -(-lengths[order] // FRAME_SAMPLES)):
        num_frames = -(-lengths[picked] // FRAME_SAMPLES)
        width = -(-int(num_frames.max()) // _WIDTH_FRAMES) * _WIDTH_FRAMES
        batch = np.zeros((len(picked), width * FRAME_SAMPLES), np.int16)
        for row, index in enumerate(picked):
            batch[row, : lengths[index]] = shard.part(int(index))
        samples = torch.from_numpy(batch).to(device).float() / 32768
        # As in the training: on a GPU in bfloat16.
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            found = codec.encode(samples)
        codes = found.to(torch.int32).cpu().numpy().astype(np.uint16)
        for row, index in enumerate(picked):
            parts[int(index)] = codes[row, : num_frames[row]]
    ordered = [parts[index] for index in range(len(order))]
    labels = [shard.frame_labels(index, len(part)) for index, part in enumerate(ordered)]
    coded = Shard.of(ordered, shard.texts, shard.speaker)
    return replace(coded, phonemes=np.concatenate(labels))


def _batches(order: Ints, num_frames: Ints) -> Iterator[Ints]:
    """Yield parts of an order by lengths, each of a bounded size when it is padded."""
    start = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end + 1 - start) * num_frames[end] > _BATCH_FRAMES:
            yield order[start:end]
            start = end
