"""LiveKit's plugins for Deepgram and ElevenLabs speak with the server when given its URL."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.lazily import Lazily
from tests.servers import RunningServer

aiohttp = pytest.importorskip("aiohttp", reason="needs the extra 'clients'")
deepgram = Lazily("livekit.plugins.deepgram", "needs the extra 'clients'")
elevenlabs = Lazily("livekit.plugins.elevenlabs", "needs the extra 'clients'")

pytestmark = [
    pytest.mark.clients,
    # The plugins and what they import warn of their own affairs.
    pytest.mark.filterwarnings("ignore"),
]

TEXT = "Hello there. This is a test of another client."
SPOKEN_S = len(TEXT) * 2 * 0.04


def of_deepgram(server: RunningServer, session: Any) -> Any:
    url = f"{server.base_url}/v1/speak"
    return deepgram.TTS(api_key="none", base_url=url, http_session=session)


def of_elevenlabs(server: RunningServer, session: Any) -> Any:
    url = f"{server.base_url}/v1"
    return elevenlabs.TTS(
        api_key="none", base_url=url, http_session=session, encoding="mp3_22050_32"
    )


async def whole(tts: Any) -> float:
    async with tts.synthesize(TEXT) as stream:
        return float(sum([event.frame.duration async for event in stream]))


async def in_pieces(tts: Any) -> float:
    async with tts.stream() as stream:
        for word in TEXT.split(" "):
            stream.push_text(f"{word} ")
        stream.end_input()
        return float(sum([event.frame.duration async for event in stream]))


@pytest.mark.parametrize("speak", [whole, in_pieces])
@pytest.mark.parametrize("plugin", [of_deepgram, of_elevenlabs])
async def test_it_hears_all_of_it(
    server: RunningServer, plugin: Callable[..., Any], speak: Callable[..., Any]
) -> None:
    async with aiohttp.ClientSession() as session:
        tts = plugin(server, session)
        try:
            found = float(await speak(tts))
        finally:
            await tts.aclose()
    assert found == pytest.approx(SPOKEN_S, abs=0.4)
    assert server.num_open == 0
