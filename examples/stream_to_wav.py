"""Writes a WAV file while it is spoken, and prints how much has arrived: a client in plain HTTP.

`scripts/serve`, then `python examples/stream_to_wav.py`.
"""

import sys
import wave

import httpx

BYTES_PER_SAMPLE = 2


def main(base_url: str = "http://127.0.0.1:8000/v1") -> None:
    body = {
        "input": "The tide comes in twice a day. It needs no reminder.",
        "response_format": "pcm",
    }
    with (
        httpx.stream("POST", f"{base_url}/audio/speech", json=body, timeout=60) as response,
        wave.open("tide.wav", "wb") as file,
    ):
        if response.is_error:
            response.read()
            sys.exit(response.json()["error"]["message"])
        file.setnchannels(1)
        file.setsampwidth(BYTES_PER_SAMPLE)
        file.setframerate(int(response.headers["X-Sample-Rate"]))
        for piece in response.iter_bytes():
            file.writeframes(piece)
            sys.stdout.write(f"{file.tell() / file.getframerate():.2f} s\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
