"""``antiphon bench quality``: how speech sounds, of files or of a server."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli.flags import flag
from antiphon.errors import SettingsError
from antiphon_bench.commands.flags import Field, JsonFile, MeasuredServerFlags, Voice
from antiphon_bench.commands.outputs import refuse_unwritable, write
from antiphon_bench.commands.serve import served
from antiphon_bench.commands.values import fields_of

if TYPE_CHECKING:
    from antiphon_bench.quality.recording import SpeechRecording


_echo = partial(typer.echo, err=True)


@dataclass(frozen=True, slots=True)
class QualityFlags(MeasuredServerFlags):
    """The flags of ``antiphon bench quality``."""

    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Recordings, each with its text beside it, as .txt.", show_default=False
        ),
    ] = None
    metrics: Annotated[str, flag("Comma-separated.", True)] = "defects,prosody,wer,speaker,mos"
    language: Annotated[str, flag("Language of the texts: en, zh, mixed.", True)] = "en"
    text_file: Annotated[
        Path | None, flag("Texts for the server to speak, one a line.", "texts of our own")
    ] = None
    voice: Voice = None
    field: Field = None
    reference: Annotated[Path | None, flag("A recording of the speaker, for cloned voices.")] = None
    whisper: Annotated[
        str | None, flag("Recogniser's directory (CTranslate2).", "tiny.en, for English")
    ] = None
    title: Annotated[str, flag("Of the card.", True)] = "Speech quality"
    json_file: JsonFile = None
    markdown: Annotated[Path | None, flag("Write the card here.")] = None


def bench_quality(flags: QualityFlags) -> None:
    """Judge speech: words understood, speaker, opinion score, defects, drift of pitch and pace."""
    from antiphon.cli.progress import shown_progress
    from antiphon_bench.quality.readiness import refuse_unready
    from antiphon_bench.quality.recording import read_recording
    from antiphon_bench.quality.report import METRICS, judge, quality_markdown

    metrics = [each.strip() for each in flags.metrics.split(",")]
    for each in metrics:
        if each not in METRICS:
            raise SettingsError(f"--metrics: '{each}' is unknown; there are {', '.join(METRICS)}.")
    refuse_unwritable(flags.json_file, flags.markdown)
    reference = None if flags.reference is None else read_recording(flags.reference)
    if sum((bool(flags.files), flags.url is not None, flags.model is not None)) != 1:
        raise SettingsError("Give either files, or --url, or --model.")
    language = None if flags.files else flags.language
    refuse_unready(metrics, whisper=flags.whisper, language=language)
    recordings = _recordings(flags)
    with shown_progress("judging", _echo) as progress:
        report = judge(
            recordings, metrics, whisper=flags.whisper, reference=reference, progress=progress
        )
    card = quality_markdown(report, flags.title)
    typer.echo(card)
    write(flags.json_file, json.dumps(report, indent=1) + "\n")
    write(flags.markdown, card)


def _recordings(flags: QualityFlags) -> "list[SpeechRecording]":
    from antiphon.cli.progress import shown_progress
    from antiphon_bench.quality.recording import read_recording
    from antiphon_bench.quality.spoken import spoken_by
    from antiphon_bench.texts import read_texts

    if flags.files:
        return [read_recording(file, flags.language) for file in flags.files]
    if flags.text_file is not None:
        texts = dict(enumerate(read_texts(flags.text_file)))
        named = {f"line {number + 1}": text for number, text in texts.items()}
    else:
        named = _own_texts(flags.language)
    fields = fields_of(flags.field) | ({} if flags.voice is None else {"voice": flags.voice})
    with served(flags, flags.model) as url, shown_progress("asking for", _echo) as progress:
        return spoken_by(
            url,
            named,
            fields=fields,
            language=flags.language,
            api_key=flags.api_key,
            progress=progress,
        )


def _own_texts(language: str) -> dict[str, str]:
    """Return all texts of the suite, and its long ones in one breath, for drift."""
    from antiphon_bench.corpus import LENGTHS, texts_of

    named = {
        f"{length} {number + 1}": text
        for length in LENGTHS
        for number, text in enumerate(texts_of(language, length))
    }
    joint = "" if language == "zh" else " "
    return named | {"all long ones": joint.join(texts_of(language, "long"))}
