"""A pipeline of Pipecat speaks with a running server; a bot takes `tts` as it is.

`pip install "pipecat-ai[openai]"`, `scripts/serve`, then `python examples/pipecat_speech.py`.
"""

import asyncio
import sys
import wave

from pipecat.frames.frames import EndFrame, Frame, TTSAudioRawFrame, TTSSpeakFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.runner import PipelineRunner
from pipecat.pipeline.task import PipelineTask
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.tts import OpenAITTSService

RATE_HZ = 24_000


class WaveWriter(FrameProcessor):
    """Writes what is spoken; a transport to a listener stands here in a bot."""

    def __init__(self, file: wave.Wave_write) -> None:
        super().__init__()
        self._file = file

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            self._file.writeframes(frame.audio)
        await self.push_frame(frame, direction)


async def main(base_url: str = "http://127.0.0.1:8000/v1") -> None:
    tts = OpenAITTSService(
        api_key="none",
        base_url=base_url,
        sample_rate=RATE_HZ,
        settings=OpenAITTSService.Settings(model="tts-1", voice="alloy"),  # its names only
    )
    with wave.open("hello.wav", "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        task = PipelineTask(Pipeline([tts, WaveWriter(file)]))
        await task.queue_frames([TTSSpeakFrame("Good morning. The kettle is on."), EndFrame()])
        await PipelineRunner(handle_sigint=False).run(task)
    sys.stdout.write("Wrote hello.wav\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
