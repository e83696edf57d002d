"""``"stream": true`` alone: what else a client says tells what it means by it."""

from typing import Any

import httpx
import pytest

from antiphon.api.delivery import Delivery, accepted_delivery
from antiphon.config import SpeechSettings
from tests.servers import TOY, start_server

URL = "/v1/audio/speech"
EVENTS, BYTES = "text/event-stream", "audio/pcm"
ANY = "application/octet-stream"

SAID: list[tuple[dict[str, Any], str, str]] = [
    ({}, "*/*", EVENTS),
    ({}, "audio/*", BYTES),
    ({}, "audio/mpeg, */*;q=0.5", BYTES),
    ({}, "text/event-stream", EVENTS),
    ({}, ANY, BYTES),
    ({"stream_format": "sse"}, "audio/*", EVENTS),
    ({"stream_format": "audio"}, "text/event-stream", BYTES),
    ({"non_streaming_mode": True}, "*/*", EVENTS),
    ({"non_streaming_mode": True}, ANY, EVENTS),
    ({"non_streaming_mode": True}, "audio/*", BYTES),
    ({"extra_params": {}}, ANY, EVENTS),
    ({"lang_code": "a"}, "*/*", BYTES),
    ({"model": "kokoro"}, "*/*", BYTES),
    ({"model": "tts-1"}, "*/*", EVENTS),
    ({"voice": "af_alto"}, "*/*", BYTES),
    ({"voice": "af_alto(2)+bm_bass(1)"}, "*/*", BYTES),
    ({"voice": "alto"}, "*/*", EVENTS),
    ({"voice": "af_alto", "stream_format": "sse"}, "*/*", EVENTS),
    ({"model": "kokoro", "non_streaming_mode": True}, "*/*", EVENTS),
    ({"model": "kokoro"}, "text/event-stream", EVENTS),
]


@pytest.mark.parametrize(("fields", "accept", "media_type"), SAID)
def test_the_other_words_of_a_client_decide(
    client: httpx.Client, fields: dict[str, Any], accept: str, media_type: str
) -> None:
    body = {"input": "Hello.", "stream": True, "response_format": "pcm", **fields}
    response = client.post(URL, json=body, headers={"Accept": accept})
    assert response.headers["content-type"].partition(";")[0] == media_type


def test_a_setting_decides_where_nothing_is_said() -> None:
    settings = TOY.model_copy(update={"speech": SpeechSettings(stream_means="audio")})
    body = {"input": "Hello.", "stream": True, "response_format": "pcm"}
    with start_server(settings) as server:
        url = f"{server.base_url}{URL}"
        found = [
            httpx.post(url, json={**body, **more}, headers=headers).headers["content-type"]
            for more, headers in (
                ({}, {}),
                ({}, {"Accept": EVENTS}),
                ({"stream_format": "sse"}, {}),
                ({"non_streaming_mode": False}, {}),
            )
        ]
    assert [each.partition(";")[0] for each in found] == [BYTES, EVENTS, EVENTS, EVENTS]


@pytest.mark.parametrize(
    ("accept", "delivery"),
    [
        ("", None),
        ("*/*", None),
        ("application/json", None),
        ("AUDIO/MPEG", Delivery.RAW),
        ("text/event-stream;q=0.1, audio/wav;q=0.9", Delivery.RAW),
        ("audio/wav;q=0, text/event-stream", Delivery.EVENTS),
        ("audio/wav;q=x, text/event-stream;q=0.1", Delivery.EVENTS),
        ("audio/wav;q=nan", None),
        (",;,;q=", None),
    ],
)
def test_headers_are_read_by_weight(accept: str, delivery: Delivery | None) -> None:
    assert accepted_delivery(accept) is delivery
