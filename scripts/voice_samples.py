"""Listening samples of voices: MP3 files, and a list in Markdown that plays them.

``scripts/voice-samples FOLDER [MODEL ...]`` writes them for models; without any, for those whose
weights come with a package. The site makes the latter when it is built.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PASSAGES = (
    ("Greeting", "Hello there. It is good to have you here; shall we begin?"),
    ("Narration", "The tide came in slowly, and by evening the boats were afloat again."),
    ("Numbers", "On May 3, 2026 the 8:15 train cost $4.50, about 12% more than the year before."),
    ("Names", "Dr. Nguyen moved from Edinburgh to St. Louis, where she teaches at 220 Oak St."),
    ("Agent", "I can move your appointment to Thursday at ten. Would that be all right?"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sample:
    """A file of a voice.

    Attributes:
        model: Name of the model.
        voice: Id of the voice.
        title: Title of the passage.
        text: Text of the passage.
        mp3: The file.
    """

    model: str
    voice: str
    title: str
    text: str
    mp3: bytes

    @property
    def name(self) -> str:
        """Name of the file."""
        return f"{self.model}-{self.voice}-{self.title.lower()}.mp3"


def shipped_models() -> list[str]:
    """Return the models that speak and whose weights come with a package."""
    from antiphon.families.registry import families

    return [each.name for each in families() if not each.needs_checkpoint and each.name != "toy"]


def samples(sources: Sequence[str]) -> Iterator[Sample]:
    """Yield each passage of each voice of each model."""
    from antiphon import Antiphon, SpeechRequest
    from antiphon.audio.encode import AudioFormat, whole_file

    for source in sources:
        with Antiphon.load(source) as antiphon:
            for voice in antiphon.voices:
                for title, text in PASSAGES:
                    audio = antiphon.speech(SpeechRequest(text, voice=voice.id, seed=1))
                    mp3 = whole_file(AudioFormat.MP3, audio.sample_rate_hz, audio.samples)
                    yield Sample(Path(source).name, voice.id, title, text, mp3)


def players(found: Sequence[Sample], folder: str = "") -> str:
    """Return a heading and a list of players for each voice; files are in ``folder``."""
    parts = []
    for model, voice in dict.fromkeys((each.model, each.voice) for each in found):
        items = [
            f"- **{each.title}.** {each.text}<br>"
            f'<audio controls preload="metadata" src="{folder}{each.name}"></audio>'
            for each in found
            if (each.model, each.voice) == (model, voice)
        ]
        cards = ['<div class="grid cards" markdown>', "", *items, "", "</div>"]
        parts.append("\n".join([f"## {model}: {voice}", "", *cards]))
    return "\n\n".join(parts)


def main() -> None:
    """Write the files and ``index.md``."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    found = list(samples(given.models or shipped_models()))
    for sample in found:
        (given.folder / sample.name).write_bytes(sample.mp3)
    (given.folder / "index.md").write_text(f"# Voices\n\n{players(found)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
