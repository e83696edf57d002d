"""Tens of thousands of malformed bodies and messages: no failure, probes go on, nothing stays."""

import json
import random
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.chaos.mutation import mutated_bytes, mutated_json
from tests.chaos.siege import Besieged, besieged, nothing_kept, scaled
from tests.servers import DEADLINE_S

pytestmark = pytest.mark.slow  # 50,000 inputs at full scale

NUM_BODIES = 40_000
NUM_MESSAGES = 10_000
NUM_CLIENTS = 2
MESSAGES_A_SOCKET = 10
SPEECH = {"input": "Hello.", "voice": "alto", "response_format": "wav", "seed": 1, "speed": 1.0}
SPEECH |= {"stream": True, "stream_format": "audio", "sample_rate": 24_000, "temperature": 0.9}
SPEECH |= {"pronunciations": {"a": "b"}, "normalize": True, "instructions": "Calm.", "top_p": 0.9}
ELEVENLABS = {"text": "Hello.", "model_id": "toy", "seed": 1, "voice_settings": {"speed": 1.0}}
DIALOGUE = {"inputs": [{"text": "Hello.", "voice_id": "alto"}], "seed": 1}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/audio/speech": SPEECH,
    "/v1/audio/speech/batch": {"items": [SPEECH, {"input": "Hi."}], "voice": "alto"},
    "/v1/audio/speech/jobs": {"input": "Hello.", "response_format": "wav"},
    "/v1/speak?model=toy": {"text": "Hello."},
    "/v1/text-to-speech/alto": ELEVENLABS,
    "/v1/text-to-speech/alto/stream": ELEVENLABS,
    "/v1/text-to-speech/alto/with-timestamps": ELEVENLABS,
    "/v1/text-to-dialogue": DIALOGUE,
    "/v1/text-to-dialogue/stream": DIALOGUE,
    "/dev/captioned_speech": {"input": "Hello.", "voice": "alto", "return_timestamps": True},
    "/dev/dialogue": {"input": "Hello.", "voice": "alto"},
    "/v1/vapi/speech": {"message": {"type": "voice-request", "text": "Hi.", "sampleRate": 24000}},
}
MESSAGES: dict[str, list[dict[str, Any]]] = {
    "/v1/audio/speech/stream": [
        {"type": "session.config", "response_format": "pcm", "voice": "alto", "speed": 1.0},
        {"type": "input.text", "text": "Hello."},
        {"type": "input.done"},
    ],
    "/v1/realtime?model=toy": [
        {"type": "session.update", "session": {"voice": "alto", "instructions": "x"}},
        {
            "type": "conversation.item.create",
            "item": {"role": "user", "content": [{"type": "input_text", "text": "Hello."}]},
        },
        {"type": "response.create", "response": {"output_modalities": ["text"]}},
        {"type": "conversation.item.truncate", "item_id": "a", "audio_end_ms": 3},
        {"type": "response.cancel", "response_id": "a"},
    ],
    "/v1/realtime?model=tts-1": [
        {"type": "session.update", "session": {"voice": "alto"}},
        {"type": "conversation.item.create", "item": {"type": "message", "role": "user"}},
        {"type": "response.create", "response": {}},
    ],
    "/v1/speak": [{"type": "Speak", "text": "Hello."}, {"type": "Flush"}, {"type": "Close"}],
    "/v1/text-to-speech/alto/stream-input": [
        {"text": " ", "voice_settings": {"speed": 1.0}},
        {"text": "Hello. ", "flush": True},
        {"text": ""},
    ],
    "/v1/text-to-speech/alto/multi-stream-input": [
        {"text": " ", "context_id": "a"},
        {"text": "Hello. ", "context_id": "a", "flush": True},
        {"close_socket": True},
    ],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Besieged, None, None]:
    with besieged(tmp_path_factory.mktemp("fuzzed")) as server:
        warm_up(server)
        yield server


def warm_up(server: Besieged) -> None:
    """Take each way once, so that what is made on first use is there."""
    with httpx.Client(base_url=server.url, timeout=DEADLINE_S) as client:
        answers = [client.post(path, json=body).status_code for path, body in BODIES.items()]
        assert 200 in answers
    for path in MESSAGES:
        send_messages(server, path, random.Random(0), is_mutated=False)


def fuzz_bodies(server: Besieged, number: int, num_bodies: int) -> Counter[int]:
    """Send bodies one after the other; return how often each status came."""
    seed, statuses = random.Random(number), Counter[int]()
    with httpx.Client(base_url=server.url, timeout=DEADLINE_S) as client:
        for _ in range(num_bodies):
            path = seed.choice(list(BODIES))
            body = mutated_json(seed, BODIES[path])
            kind = seed.choice(["application/json"] * 8 + ["text/plain", "multipart/form-data"])
            answer = client.post(path, content=body, headers={"Content-Type": kind})
            assert answer.status_code < 500, (path, body, answer.text)
            statuses[answer.status_code] += 1
    return statuses


def send_messages(
    server: Besieged, path: str, seed: random.Random, *, is_mutated: bool = True
) -> None:
    """Send messages on one WebSocket, and read until the server ends it or is heard no more."""
    with connect(
        f"ws://127.0.0.1:{server.port}{path}", max_size=None, proxy=None, open_timeout=DEADLINE_S
    ) as socket:
        try:
            for number in range(MESSAGES_A_SOCKET):
                plain = MESSAGES[path][number % len(MESSAGES[path])]
                data = mutated_json(seed, plain) if is_mutated else json.dumps(plain).encode()
                if is_mutated and seed.random() < 0.1:
                    socket.send(mutated_bytes(seed, data))  # a binary message
                else:
                    socket.send(data.decode("utf-8", "replace"))
            socket.recv(timeout=0)
        except (ConnectionClosed, TimeoutError):
            pass
    assert socket.close_code != 1011, "a failure of the server's own"


def test_malformed_bodies_are_answered_without_a_failure(server: Besieged) -> None:
    num_bodies = scaled(NUM_BODIES)
    with (
        nothing_kept(server, "fuzzed bodies", num_bodies),
        ThreadPoolExecutor(NUM_CLIENTS) as pool,
    ):
        works = [
            pool.submit(fuzz_bodies, server, number, num_bodies // NUM_CLIENTS)
            for number in range(NUM_CLIENTS)
        ]
        statuses = sum((work.result() for work in works), Counter[int]())
    server.speak()
    assert statuses[200], "some were not malformed enough"
    assert statuses[400] > num_bodies // 10


def test_malformed_messages_end_no_more_than_their_own_connection(server: Besieged) -> None:
    num_sockets = scaled(NUM_MESSAGES) // MESSAGES_A_SOCKET
    seed = random.Random(7)
    with nothing_kept(server, "fuzzed messages", num_sockets * MESSAGES_A_SOCKET):
        for number in range(num_sockets):
            send_messages(server, list(MESSAGES)[number % len(MESSAGES)], seed)
    server.speak()
