"""LiveKit's plugin for OpenAI speaks with a running server; an agent takes `tts` as it is.

`pip install livekit-agents livekit-plugins-openai`, `scripts/serve`, then
`python examples/livekit_speech.py`.
"""

import asyncio
import sys
import wave

from livekit.plugins import openai


async def main(base_url: str = "http://127.0.0.1:8000/v1") -> None:
    # In an agent: AgentSession(tts=tts, ...)
    tts = openai.TTS(base_url=base_url, api_key="none", model="tts-1", voice="alloy")
    try:
        async with tts.synthesize("Good morning. The kettle is on.") as stream:
            frames = [event.frame async for event in stream]
    finally:
        await tts.aclose()
    with wave.open("hello.wav", "wb") as file:
        file.setnchannels(frames[0].num_channels)
        file.setsampwidth(2)
        file.setframerate(frames[0].sample_rate)
        for frame in frames:
            file.writeframes(frame.data.tobytes())
    sys.stdout.write("Wrote hello.wav\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
