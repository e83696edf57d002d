"""Datasets of recordings: texts spoken by synthetic speakers on all cores, or one's own."""

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from antiphon_training.log import Log, shown_bar
from antiphon_training.shards import HELD_OUT, Shard, held_out_file
from antiphon_training.sizes import SAMPLE_RATE_HZ
from antiphon_training.speakers import Speaker, to_int16, trim

_SHARD_TEXTS = 64
_SEEDS_PER_SHARD = 1000
_MAX_RECORDING_S = 20.0


@dataclass(frozen=True, slots=True)
class ShardTask:
    """A shard to be spoken: any process that does it writes the same file."""

    path: Path
    texts: tuple[str, ...]
    speaker: str
    seed: int


def shard_tasks(
    folder: Path, texts: Sequence[str], held_out: Sequence[str], speakers: Sequence[str], seed: int
) -> Iterator[ShardTask]:
    """Yield the held-out shards, then those of the texts, whose speakers take turns."""
    for speaker in speakers:
        yield ShardTask(held_out_file(folder, speaker), tuple(held_out), speaker, seed)
    for index in range(-(-len(texts) // _SHARD_TEXTS)):
        speaker = speakers[index % len(speakers)]
        some = tuple(texts[index * _SHARD_TEXTS : (index + 1) * _SHARD_TEXTS])
        path = folder / f"audio-{index:05d}-{speaker}.npz"
        yield ShardTask(path, some, speaker, seed + _SEEDS_PER_SHARD * (index + 1))


def generate(
    folder: Path, tasks: Iterator[ShardTask], *, num_workers: int, seconds: float, hours: float
) -> float:
    """Speak shards until all exist or a limit is reached; shards that exist are left alone.

    Returns:
        Hours of audio in shards written now.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = Log(folder / "data.jsonl")
    began, spoken_s = time.monotonic(), 0.0
    wanted = [task for task in tasks if not task.path.exists()]
    run = partial(_speak_shard, end=time.time() + seconds)
    # Spawned workers do not inherit threads of libraries, which could deadlock in a fork.
    pool_of = multiprocessing.get_context("spawn").Pool
    with pool_of(num_workers) as pool, shown_bar("recordings") as show:
        for number, shard_s in enumerate(pool.imap_unordered(run, wanted), 1):
            spoken_s += shard_s
            elapsed_s = time.monotonic() - began
            show(max(number / len(wanted), elapsed_s / seconds, spoken_s / 3600 / hours))
            if number % 20 == 0:
                log.write(hours=round(spoken_s / 3600, 2), elapsed_s=round(elapsed_s, 1))
            if elapsed_s > seconds or spoken_s > hours * 3600:
                break
        pool.terminate()
    log.write(event="done", hours=round(spoken_s / 3600, 2))
    return spoken_s / 3600


_speakers: dict[str, Speaker] = {}
"""Speakers of a worker process, each loaded once."""


def _speak_shard(task: ShardTask, end: float) -> float:
    """Write a shard and return its seconds; write nothing if time is up."""
    if time.time() > end:
        return 0.0
    if task.speaker not in _speakers:
        _speakers[task.speaker] = Speaker(task.speaker)
    speaker = _speakers[task.speaker]
    speeches = [speaker.speak(text, task.seed + index) for index, text in enumerate(task.texts)]
    spoken = [each for each in zip(task.texts, speeches, strict=True) if len(each[1].samples)]
    shard = Shard.of(
        [speech.samples for _, speech in spoken],
        [text for text, _ in spoken],
        task.speaker,
        [speech.phonemes for _, speech in spoken],
    )
    shard.write(task.path, "audio")
    return len(shard.rows) / SAMPLE_RATE_HZ


def import_recordings(source: Path, folder: Path, speaker: str, *, num_held_out: int = 20) -> float:
    """Make a dataset of a folder with ``name.wav`` and ``name.txt``: one voice, a sentence each.

    Recordings are mixed to mono, resampled and trimmed; those longer than 20 s, or without text,
    are left out.

    Returns:
        Hours of audio.

    Raises:
        ValueError: there are no recordings with texts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pairs = []
    for wav in sorted(source.glob("*.wav")):
        text_file = wav.with_suffix(".txt")
        text = text_file.read_text(encoding="utf-8").strip() if text_file.exists() else ""
        audio = to_int16(trim(_read_wav(wav)))
        if text and 0 < len(audio) <= _MAX_RECORDING_S * SAMPLE_RATE_HZ:
            pairs.append((" ".join(text.split()), audio))
    if not pairs:
        raise ValueError(f"{source} has no recordings with texts: name.wav beside name.txt")
    order = np.random.default_rng(0).permutation(len(pairs))
    pairs = [pairs[index] for index in order]
    num_held_out = min(num_held_out, len(pairs) // 10)
    parts = {f"{HELD_OUT}-{speaker}.npz": pairs[:num_held_out]} if num_held_out else {}
    for first in range(num_held_out, len(pairs), _SHARD_TEXTS):
        name = f"audio-{first // _SHARD_TEXTS:05d}-{speaker}.npz"
        parts[name] = pairs[first : first + _SHARD_TEXTS]
    total = 0
    for name, some in parts.items():
        shard = Shard.of([audio for _, audio in some], [text for text, _ in some], speaker)
        shard.write(folder / name, "audio")
        total += len(shard.rows)
    return total / SAMPLE_RATE_HZ / 3600


def _read_wav(path: Path) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    import soundfile
    import soxr

    samples, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
    mono: np.ndarray[tuple[int], np.dtype[np.float32]] = samples.mean(axis=1)
    return soxr.resample(mono, rate_hz, SAMPLE_RATE_HZ)  # type: ignore[no-any-return]
