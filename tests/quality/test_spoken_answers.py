"""A real chat model is answered aloud by the default voice, and a recogniser hears the answer."""

import base64
import json
from typing import Any

import httpx
import numpy as np
import pytest

from antiphon.config import ModelSettings, ModelsSettings, Settings
from antiphon.contracts.types import Samples
from tests.asr import num_word_errors, transcribe, words
from tests.families.causal_lm.downloads import published_smollm2
from tests.servers import RunningServer, server_of
from tests.sockets import connected, messages

pytestmark = pytest.mark.slow  # weights of 135 million numbers write, and a recogniser hears them

RATE_HZ = 24_000
QUESTION = "Why is the sky blue? Explain it to a child."
MAX_ERROR_RATE = 0.15


server = server_of(
    Settings(
        models=ModelsSettings(
            more=(ModelSettings(source=str(published_smollm2()), name="smollm2", device="cpu"),)
        )
    )
)


def samples_of(pieces: list[str]) -> Samples:
    pcm = b"".join(map(base64.b64decode, pieces))
    return np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32768)


def error_rate(transcript: str, samples: Samples) -> float:
    said, heard = words(transcript), words(transcribe(samples, RATE_HZ))
    return num_word_errors(said, heard) / len(said)


def test_it_is_heard_before_it_is_written_and_word_for_word(server: RunningServer) -> None:
    body: dict[str, Any] = {
        "model": "smollm2",
        "messages": [{"role": "user", "content": QUESTION}],
        "modalities": ["text", "audio"],
        "audio": {"voice": "default", "format": "pcm16"},
        "temperature": 0,
        "max_tokens": 45,
        "stream": True,
    }
    told: list[dict[str, str]] = []
    url = f"{server.base_url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, timeout=300) as response:
        assert response.status_code == 200
        for line in response.iter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line.removeprefix("data: "))["choices"]
                told += [each["delta"]["audio"] for each in choices if "audio" in each["delta"]]
    transcript = "".join(each.get("transcript", "") for each in told)
    first_audio = next(n for n, each in enumerate(told) if "data" in each)
    last_text = max(n for n, each in enumerate(told) if "transcript" in each)
    assert first_audio < last_text
    assert len(words(transcript)) > 20
    rate = error_rate(transcript, samples_of([each["data"] for each in told if "data" in each]))
    print(f"word error rate: {rate:.1%}")  # noqa: T201
    assert rate <= MAX_ERROR_RATE, transcript


def test_what_is_kept_of_an_interrupted_answer_is_what_was_heard(server: RunningServer) -> None:
    with connected(server, "/v1/realtime?model=smollm2") as talk:
        talk.receive()
        content = [{"type": "input_text", "text": QUESTION}]
        talk.send("conversation.item.create", item={"role": "user", "content": content})
        response = {"temperature": 0, "max_output_tokens": 40}
        talk.send("response.create", response=response)
        found = talk.until("response.done")
        (item,) = messages(found)[-1]["response"]["output"]
        deltas = messages(found, "response.output_audio.delta")
        samples = samples_of([each["delta"] for each in deltas])
        errors = []
        for share in (0.75, 0.5, 0.25):
            heard = samples[: int(share * len(samples))]
            heard_ms = len(heard) * 1000 // RATE_HZ
            talk.send(
                "conversation.item.truncate",
                item_id=item["id"],
                content_index=0,
                audio_end_ms=heard_ms,
            )
            talk.until("conversation.item.truncated")
            talk.send("conversation.item.retrieve", item_id=item["id"])
            (kept,) = messages(talk.until("conversation.item.retrieved"))
            transcript = kept["item"]["content"][0]["transcript"]
            errors.append(len(words(transcript)) - len(words(transcribe(heard, RATE_HZ))))
    print(f"words kept beyond those heard: {errors}")  # noqa: T201
    assert all(abs(each) <= 3 for each in errors)
