"""Speaks words as they are typed, or written by a language model: a client of the WebSocket.

`scripts/serve`, then `echo "The tide comes in. It goes out." | python examples/stream_text.py`.
"""

import json
import sys
import threading
import wave

from websockets.sync.client import ClientConnection, connect

RATE_HZ = 24_000


def main(url: str = "ws://127.0.0.1:8000/v1/audio/speech/stream") -> None:
    with connect(url) as socket, wave.open("words.wav", "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        config = {"response_format": "pcm", "sample_rate": RATE_HZ, "stream_audio": True}
        socket.send(json.dumps({"type": "session.config", **config}))
        threading.Thread(target=send_words, args=(socket,)).start()
        for message in socket:
            if isinstance(message, bytes):
                file.writeframes(message)
                sys.stdout.write(f"{file.tell() / RATE_HZ:.2f} s\n")
            elif (event := json.loads(message))["type"] == "error":
                sys.exit(event["message"])


def send_words(socket: ClientConnection) -> None:
    """Send each line as an utterance, word by word, and then goodbye."""
    for line in sys.stdin:
        for word in line.split():
            socket.send(json.dumps({"type": "input.text", "text": f"{word} "}))
        socket.send(json.dumps({"type": "input.done"}))
    socket.send(json.dumps({"type": "session.close"}))


if __name__ == "__main__":
    main(*sys.argv[1:])
