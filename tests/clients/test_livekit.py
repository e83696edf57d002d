"""LiveKit's own plugin speaks with the server: it asks for events and decodes what they carry."""

import asyncio
from itertools import product

import httpx
import pytest

from tests.decoding import decoded
from tests.lazily import Lazily
from tests.loops import on_a_loop
from tests.servers import RunningServer

openai = Lazily("livekit.plugins.openai", "needs the extra 'clients'")

pytestmark = [
    pytest.mark.clients,
    # The plugin and what it imports warn of their own affairs.
    pytest.mark.filterwarnings("ignore"),
]

TEXT = "Hello there. This is a test of another client."


@on_a_loop
async def duration_s(server: RunningServer, model: str, format: str) -> float:
    """Return how much audio the plugin's frames hold."""
    tts = openai.TTS(
        model=model,
        voice="alloy",
        base_url=f"{server.base_url}/v1",
        api_key="none",
        response_format=format,
    )
    try:
        async with tts.synthesize(TEXT) as stream:
            return float(sum([event.frame.duration async for event in stream]))
    finally:
        await tts.aclose()


def expected_s(server: RunningServer) -> float:
    body = {"input": TEXT, "response_format": "wav"}
    response = httpx.post(f"{server.base_url}/v1/audio/speech", json=body, timeout=30)
    samples, rate_hz = decoded(response.content, "wav", 0)
    return len(samples) / rate_hz


# Its decoder drops the end of a FLAC stream, so that format tells nothing about us.
@pytest.mark.parametrize(
    ("model", "format"),
    [
        ("tts-1", "mp3"),
        ("toy", "pcm"),
        *(
            pytest.param(model, format, marks=pytest.mark.slow)  # more of the same
            for model, format in product(("toy", "tts-1"), ("mp3", "opus", "aac", "wav", "pcm"))
            if (model, format) not in (("tts-1", "mp3"), ("toy", "pcm"))
        ),
    ],
)
def test_it_hears_all_of_it(server: RunningServer, model: str, format: str) -> None:
    heard_s = duration_s(server, model, format)
    assert heard_s == pytest.approx(expected_s(server), abs=0.15)
    assert server.num_open == 0


def test_it_tells_a_wrong_voice_from_a_broken_server(server: RunningServer) -> None:
    from livekit.agents import APIStatusError
    from livekit.agents.types import APIConnectOptions

    async def main() -> None:
        tts = openai.TTS(voice="nobody", base_url=f"{server.base_url}/v1", api_key="none")
        try:
            once = APIConnectOptions(max_retry=0)
            async with tts.synthesize(TEXT, conn_options=once) as stream:
                async for _ in stream:
                    pass
        finally:
            await tts.aclose()

    with pytest.raises(APIStatusError) as caught:
        asyncio.run(main())
    assert caught.value.status_code == 404
