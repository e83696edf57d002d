"""Speech without a server, in this process: `python examples/offline.py`."""

import sys

from antiphon import Antiphon, SpeechRequest

LINES = {
    "question.wav": SpeechRequest("Who goes there?", seed=1),
    "answer.wav": SpeechRequest("A friend, and a tired one.", seed=1, speed=0.9),
}


def main(*model: str) -> None:
    with Antiphon.load(*model) as antiphon:
        names = ", ".join(voice.id for voice in antiphon.voices)
        sys.stdout.write(f"Voices: {names}\n")
        for name, request in LINES.items():
            audio = antiphon.speech(request)
            audio.save(name)
            sys.stdout.write(f"{name}: {audio.duration_s:.2f} s\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
