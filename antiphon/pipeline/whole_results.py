"""Whole results for programs: what one loaded model makes, collected on its event loop."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from antiphon.audio.utterance import Audio, collect
from antiphon.concurrency import cancel_and_wait
from antiphon.contracts.chat_types import ChatAnswer, ChatRequest, Message
from antiphon.contracts.picture_types import ImageRequest, Progress, VideoRequest
from antiphon.contracts.types import SpeechRequest, random_hex
from antiphon.media.results import ImageResult, VideoResult
from antiphon.pipeline.chat.service import Chats, collect_answer
from antiphon.pipeline.pictures.images import Images
from antiphon.pipeline.pictures.videos import Videos
from antiphon.pipeline.speech.service import Speech

StepProgress = Callable[[Progress], None]
"""Called after steps of denoising, on the event loop, which may be in another thread than the
program; of several at once after the last one."""


class WholeResults:
    """Asks services and collects what they make; requests may be texts alone.

    Speech and answers have offline priority: streams of the same engine come first.
    """

    def __init__(self, speech: Speech, chats: Chats, images: Images, videos: Videos) -> None:
        self._speech, self._chats = speech, chats
        self._images, self._videos = images, videos

    async def speech(self, request: SpeechRequest | str) -> Audio:
        return await collect(self._speech.stream(replace(speech_request(request), is_live=False)))

    async def speeches(self, requests: Sequence[SpeechRequest | str]) -> list[Audio]:
        """Return whole utterances, made at the same time; if one fails, all are given up."""
        tasks = [asyncio.create_task(self.speech(request)) for request in requests]
        try:
            return await asyncio.gather(*tasks)
        finally:
            await cancel_and_wait(*tasks)

    async def answer(self, request: ChatRequest | Sequence[Message] | str) -> ChatAnswer:
        request = replace(chat_request(request), is_live=False)
        return await collect_answer(self._chats.stream(request))

    async def image(
        self, request: ImageRequest | str, progress: StepProgress | None
    ) -> ImageResult:
        """Draw an image, or edit those that the request brings; raises EngineError."""
        request = ImageRequest(request) if isinstance(request, str) else request
        complete = replace(self._images.completed(request), id=_unique(request.id), num_previews=0)
        assert complete.seed is not None
        image, ended = await self._images.collect(complete, partial(_tell, progress))
        return ImageResult(image.pixels, complete.seed, ended.usage)

    async def video(
        self, request: VideoRequest | str, progress: StepProgress | None
    ) -> VideoResult:
        if isinstance(request, str):
            request = VideoRequest(request, fps=self._videos.settings.default_fps)
        complete = replace(self._videos.completed(request), id=_unique(request.id))
        assert complete.seed is not None
        video, ended = await self._videos.collect(complete, partial(_tell, progress))
        return VideoResult(video.frames, video.fps, complete.seed, ended.usage)


def speech_request(request: SpeechRequest | str) -> SpeechRequest:
    """Return a request whose id is unique: one may be spoken several times at once."""
    if isinstance(request, str):
        return SpeechRequest(request)
    return replace(request, id=_unique(request.id))


def chat_request(request: ChatRequest | Sequence[Message] | str) -> ChatRequest:
    """Return a request whose id is unique: one may be answered several times at once."""
    if isinstance(request, str):
        request = (Message("user", request),)
    if not isinstance(request, ChatRequest):
        return ChatRequest(tuple(request))
    return replace(request, id=_unique(request.id))


def _unique(id: str) -> str:
    return f"{id}/{random_hex(8)}"


def _tell(progress: StepProgress | None, step: Progress) -> None:
    if progress is not None:
        progress(step)
