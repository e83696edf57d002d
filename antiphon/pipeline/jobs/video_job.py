"""Makes the video of a job in the background; what is begun anew makes the same."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from antiphon.concurrency import Workers
from antiphon.contracts.picture_types import Progress, Video, VideoRequest
from antiphon.contracts.types import Ended
from antiphon.errors import OverloadedError, ReplicaLostError, UnavailableError
from antiphon.media import stills
from antiphon.media.image_codec import Pixels
from antiphon.media.video_codec import MEDIA_TYPE, SUFFIX, encode_video
from antiphon.pipeline.jobs.work import JobAccount, JobPlace
from antiphon.pipeline.pictures.videos import Videos
from antiphon.storage.checksums import sha256_of
from antiphon.storage.faults import storage_faults
from antiphon.storage.job import JobFile, JobProgress, JobResult

logger = logging.getLogger(__name__)

_BITS_OF_PIXEL = 2.0  # of an MP4 file, more than films of noise take
_BYTES_OF_STILLS = 1024 * 1024
_SHARE_OF_STEPS = 0.95  # of a job; the rest is decoding and encoding
_RETRY_S = 1.0
_MAX_RETRY_S = 60.0
_MAX_LOST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoJobWork:
    """A job's body, read; a `JobWork`.

    Attributes:
        request: complete but for its image.
        load_image: returns the image, if there is one.
    """

    videos: Videos
    request: VideoRequest
    load_image: Callable[[], Awaitable[Pixels | None]]
    input_bytes: int
    encoders: Workers

    @property
    def model_name(self) -> str:
        return self.videos.model(self.request.model).name

    def predicted_bytes(self) -> int:
        """Return how much of the disk its files and its image may take."""
        request = self.request
        num_pixels = (request.width or 0) * (request.height or 0) * (request.num_frames or 0)
        return int(num_pixels * _BITS_OF_PIXEL / 8) + _BYTES_OF_STILLS + self.input_bytes

    async def run(self, place: JobPlace, account: JobAccount) -> JobResult:
        """Make the video and keep it; raises AntiphonError."""
        request = replace(self.request, image=await self.load_image(), is_live=False)
        video, ended = await self._made(request, account)
        run = self.encoders.run
        contents = (
            (f"video.{SUFFIX}", MEDIA_TYPE, await encode_video(video, self.encoders)),
            (
                f"thumbnail.{stills.THUMBNAIL}",
                stills.THUMBNAIL.media_type,
                await run(stills.thumbnail, video),
            ),
            (
                f"spritesheet.{stills.SPRITESHEET}",
                stills.SPRITESHEET.media_type,
                await run(stills.spritesheet, video),
            ),
        )
        files = [
            await place.workers.run(partial(_kept, place, account, *each)) for each in contents
        ]
        duration_s = len(video.frames) / video.fps
        files[0] = replace(files[0], duration_s=duration_s)
        return JobResult(
            files=tuple(files),
            chapters=(),
            finish_reason=ended.reason,
            input_tokens=ended.usage.input_tokens,
            output_tokens=ended.usage.output_tokens,
        )

    async def _made(self, request: VideoRequest, account: JobAccount) -> tuple[Video, Ended]:
        """Make the video, as soon as there is room, as offline work."""
        retry_s, num_lost = _RETRY_S, 0
        while True:
            try:
                return await self._attempt(request, account)
            except (OverloadedError, UnavailableError) as error:
                num_lost += isinstance(error, ReplicaLostError)
                if num_lost >= _MAX_LOST:  # what it asks for may be what they die of
                    raise
                logger.info("the job %s waits: %s", request.id, error.message)
                await asyncio.sleep(max(retry_s, error.retry_after_s or 0.0))
                retry_s = min(2 * retry_s, _MAX_RETRY_S)

    async def _attempt(self, request: VideoRequest, account: JobAccount) -> tuple[Video, Ended]:
        def proceed(step: Progress) -> None:
            account.proceed(JobProgress(fraction=_SHARE_OF_STEPS * step.step / step.num_steps))

        return await self.videos.collect(request, proceed)


def _kept(
    place: JobPlace, account: JobAccount, name: str, media_type: str, content: bytes
) -> JobFile:
    account.budget.spend(len(content))
    key = f"{place.media_folder}/{name}"
    with storage_faults():
        place.media.put(key, content)
    return JobFile(
        key=key,
        media_type=media_type,
        num_bytes=len(content),
        duration_s=0.0,
        sha256=sha256_of([content]),
    )
