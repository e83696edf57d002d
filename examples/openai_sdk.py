"""OpenAI's SDK against a running server: `scripts/serve`, then `python examples/openai_sdk.py`."""

import sys

from openai import OpenAI


def main(base_url: str = "http://127.0.0.1:8000/v1") -> None:
    client = OpenAI(base_url=base_url, api_key="none")
    models = [model.id for model in client.models.list()]
    sys.stdout.write(f"Served: {', '.join(models)}\n")
    speech = client.audio.speech.create(
        model=models[0],
        voice="alloy",  # an alias of the first voice
        input="Good morning. The kettle is on, and the bread is still warm.",
        response_format="mp3",
    )
    speech.write_to_file("hello.mp3")
    sys.stdout.write("Wrote hello.mp3\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
