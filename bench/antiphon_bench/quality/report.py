"""The card of a voice: every figure of its recordings, for JSON and as Markdown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from shlex import join
from statistics import fmean
from typing import Any

from antiphon.contracts.types import LoadProgress
from antiphon.errors import SettingsError
from antiphon_bench.machine import machine_of, provenance, version_of
from antiphon_bench.quality.defects import defects_of
from antiphon_bench.quality.prosody import prosody_of
from antiphon_bench.quality.recording import SpeechRecording

METRICS = ("defects", "prosody", "wer", "speaker", "mos")
_LONG_ENOUGH_S = 1.6
"""Shortest speech in which a speaker is recognised, in seconds."""


def judge(
    recordings: Sequence[SpeechRecording],
    metrics: Sequence[str],
    *,
    whisper: str | None = None,
    reference: SpeechRecording | None = None,
    progress: LoadProgress = lambda *_: None,
) -> dict[str, Any]:
    """Judge recordings and return the report for JSON; raises SettingsError.

    Args:
        recordings: non-empty recordings, at least one.
        whisper: directory of a recogniser; ``None``: the default one, for English.
        reference: recording of the expected speaker.
        progress: callback with the current step, the number of finished steps, and their total.
    """
    if not recordings or not all(each.duration_s for each in recordings):
        raise SettingsError("There is a recording without audio.")
    rows: list[dict[str, Any]] = [
        {"name": each.name, "duration_s": each.duration_s, "text": each.text} for each in recordings
    ]
    steps: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "defects": lambda: [asdict(defects_of(each)) for each in recordings],
        "prosody": lambda: [
            asdict(prosody_of(each.samples, each.sample_rate_hz)) for each in recordings
        ],
        "wer": lambda: _understood(recordings, whisper),
        "speaker": lambda: _speakers(recordings, reference),
        "mos": lambda: _opinions(recordings),
    }
    for number, name in enumerate(metrics):
        progress(name, number, len(metrics))
        for row, found in zip(rows, steps[name](), strict=True):
            row |= found
    return {
        "kind": "quality",
        **provenance(),
        "metrics": list(metrics),
        "summary": summary(rows),
        "recordings": rows,
    }


_DRIFTS = (
    *("pitch_drift_semitones_per_min", "pitch_drift_error"),
    *("pace_drift_percent_per_min", "pace_drift_error"),
)


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of all recordings together."""

    def mean(name: str) -> float | None:
        values = [row[name] for row in rows if row.get(name) is not None]
        return fmean(values) if values else None

    def total(name: str) -> int | None:
        values = [int(row[name]) for row in rows if name in row]
        return sum(values) if values else None

    def largest(name: str) -> float | None:
        return max((abs(row[name]) for row in rows if name in row), default=None)

    expected = total("words")
    wrong = total("word_errors")
    longest = max(rows, key=lambda row: float(row["duration_s"]))
    found = {
        "recordings": len(rows),
        "audio_s": sum(float(row["duration_s"]) for row in rows),
        "word_error_rate": wrong / expected if wrong is not None and expected else None,
        "words": expected,
        "mos": mean("mos"),
        "speaker_similarity": mean("similarity"),
        "speaker_similarity_min": min(
            (row["similarity"] for row in rows if row.get("similarity") is not None), default=None
        ),
        "reference_similarity": mean("reference_similarity"),
        "clipped_share": mean("clipped_share"),
        "dc_offset_max": largest("dc_offset"),
        "level_db": mean("level_db"),
        "leading_silence_s": mean("leading_silence_s"),
        "longest_pause_s": largest("longest_pause_s"),
        **{name: total(name) for name in ("clicks", "gaps", "repeats", "truncated")},
        "pitch_hz": mean("pitch_hz"),
        "pitch_range_semitones": mean("pitch_range_semitones"),
        "syllables_per_s": mean("syllables_per_s"),
        "longest_s": float(longest["duration_s"]),
        **{name: longest.get(name) for name in _DRIFTS},
    }
    return {name: value for name, value in found.items() if value is not None}


_TITLES = {
    "recordings": ("recordings", "d"),
    "audio_s": ("audio, s", ".1f"),
    "word_error_rate": ("word error rate", ".1%"),
    "words": ("of words", "d"),
    "mos": ("mean opinion score, 1 to 5 (DistillMOS)", ".2f"),
    "speaker_similarity": ("likeness of the voice to itself (0.82 and more: one speaker)", ".3f"),
    "speaker_similarity_min": ("of the recording that is least like the others", ".3f"),
    "reference_similarity": ("likeness to the reference", ".3f"),
    "clipped_share": ("samples that are clipped", ".4%"),
    "dc_offset_max": ("largest DC offset, of full scale", ".5f"),
    "level_db": ("level of speech, dBFS", ".1f"),
    "leading_silence_s": ("silence before the first sound, s", ".3f"),
    "longest_pause_s": ("longest pause, s", ".2f"),
    "clicks": ("clicks", "d"),
    "gaps": ("gaps", "d"),
    "repeats": ("repeated stretches", "d"),
    "truncated": ("recordings that begin or end midway", "d"),
    "pitch_hz": ("pitch, Hz", ".0f"),
    "pitch_range_semitones": ("range of the pitch, semitones", ".1f"),
    "syllables_per_s": ("syllables a second", ".2f"),
    "longest_s": ("longest recording, s", ".1f"),
    "pitch_drift_semitones_per_min": ("drift of its pitch, semitones a minute", "+.2f"),
    "pitch_drift_error": ("standard error of that", ".2f"),
    "pace_drift_percent_per_min": ("drift of its pace, percent a minute", "+.1f"),
    "pace_drift_error": ("standard error of that", ".1f"),
}


def quality_markdown(report: Mapping[str, Any], title: str = "Speech quality") -> str:
    facts = (machine_of(report), version_of(report), f"`{join(report['command'])}`")
    lines = [f"# {title}", "", *(f"- {each}" for each in facts), ""]
    lines += ["| figure | value |", "| --- | --- |"]
    for name, value in report["summary"].items():
        heading, form = _TITLES[name]
        lines.append(f"| {heading} | {format(value, form)} |")
    wrong = [row for row in report["recordings"] if row.get("word_errors")]
    if wrong:
        lines += [
            "",
            "Recognised otherwise than written:",
            "",
            "| written | recognised |",
            "| --- | --- |",
        ]
        lines += [f"| {row['text']} | {row['heard']} |" for row in wrong]
    return "\n".join([*lines, ""])


def _understood(recordings: Sequence[SpeechRecording], whisper: str | None) -> list[dict[str, Any]]:
    from antiphon_bench.quality.transcript import Recogniser

    recogniser = Recogniser(whisper)
    found: list[dict[str, Any]] = []
    for each in recordings:
        if each.text is None:
            found.append({})
            continue
        transcript = recogniser.transcript(
            each.samples, each.sample_rate_hz, each.text, each.language
        )
        found.append(
            {
                "heard": transcript.words,
                "word_errors": transcript.num_errors,
                "words": transcript.num_expected,
            }
        )
    return found


def _speakers(
    recordings: Sequence[SpeechRecording], reference: SpeechRecording | None
) -> list[dict[str, Any]]:
    from antiphon_bench.quality.speaker_vectors import SpeakerVectors, similarity

    encoder = SpeakerVectors()
    vectors = {
        index: encoder.embed(each.samples, each.sample_rate_hz)
        for index, each in enumerate(recordings)
        if each.duration_s >= _LONG_ENOUGH_S
    }
    likeness: dict[int, list[float]] = {index: [] for index in vectors}
    for first, second in combinations(vectors, 2):
        value = similarity(vectors[first], vectors[second])
        likeness[first].append(value)
        likeness[second].append(value)
    found: list[dict[str, Any]] = [
        {"similarity": fmean(likeness[index])} if likeness.get(index) else {}
        for index in range(len(recordings))
    ]
    if reference is not None:
        wanted = encoder.embed(reference.samples, reference.sample_rate_hz)
        for index, vector in vectors.items():
            found[index]["reference_similarity"] = similarity(vector, wanted)
    return found


def _opinions(recordings: Sequence[SpeechRecording]) -> list[dict[str, Any]]:
    from antiphon_bench.quality.opinion import OpinionModel

    model = OpinionModel()
    return [{"mos": model.score(each.samples, each.sample_rate_hz)} for each in recordings]
