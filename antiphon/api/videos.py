"""POST /v1/videos: a job as OpenAI has it, or the video itself, as NVIDIA Dynamo answers.

`wants_job` decides. vLLM-Omni's clients post forms to /v1/videos/sync, and get the file.
"""

import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Header
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from antiphon.api.bodies import FormRoute, came_as_form
from antiphon.api.images import media_url
from antiphon.api.middleware.memory_budget import reserve
from antiphon.api.options import ignored_headers
from antiphon.api.schemas.error import ErrorBody
from antiphon.api.schemas.videos import (
    VideoAnswer,
    VideoBody,
    VideoData,
    VideoView,
    shown_seconds,
    wants_job,
)
from antiphon.api.state import Asking, Server, ServerState, SpeechId
from antiphon.api.streaming import WholeResponse
from antiphon.api.video_jobs import PATH, VideoJobs, create_job, first_frame
from antiphon.contracts.picture_types import VideoRequest
from antiphon.contracts.types import Caller, random_hex
from antiphon.media.references import image_use
from antiphon.media.video_codec import MEDIA_TYPE, SUFFIX, encode_video
from antiphon.pipeline.pictures.videos import INPUT_REFERENCE

_ERRORS = (400, 401, 404, 429)

router = APIRouter(
    tags=["videos"],
    route_class=FormRoute,
    responses={status: {"model": ErrorBody} for status in _ERRORS},
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request, checked as far as possible before its image is loaded, which may set its size."""

    body: VideoBody
    request: VideoRequest
    headers: Mapping[str, str]

    @classmethod
    def of(cls, body: VideoBody, server: ServerState, id: str) -> "_Asked":
        settings = server.settings
        model = server.videos.model(body.model)
        options, ignored = body.family_options(model.task)
        request = body.to_domain(id, model.capabilities, settings.videos.default_fps)
        request = replace(request, options=options)
        server.videos.check_image(request, has_image=body.input_reference is not None)
        server.videos.completed(request)
        return cls(body, request, ignored_headers(ignored, settings.speech))

    async def completed(self, image: str | bytes | None, server: ServerState) -> VideoRequest:
        """Return the request with its image; raises InvalidRequestError if that will not do."""
        pixels = await first_frame(server, image)
        return server.videos.completed(replace(self.request, image=pixels))


@router.post(PATH, response_model=VideoView | VideoAnswer, responses={507: {"model": ErrorBody}})
async def create_video(
    body: VideoBody,
    server: Server,
    jobs: VideoJobs,
    caller: Asking,
    id: SpeechId,
    connection: Request,
    prefer: Annotated[str, Header()] = "",
) -> Response:
    """Make a video, now or in the background.

    A form creates a job (OpenAI); JSON is answered with the video (NVIDIA Dynamo), unless it asks
    otherwise: by ``"async"``, by ``Prefer: respond-async``, or by ``seconds`` as a string or
    ``input_reference`` as an object without ``nvext`` and ``response_format``.
    """
    asked = _Asked.of(body, server, id)
    members = await connection.json()
    if not wants_job(members, prefer, is_form=came_as_form(connection)):
        return _answer(asked, server, caller, media_url(connection))
    image: bytes | None = None
    if body.input_reference is not None:
        use = image_use(INPUT_REFERENCE, server.settings.videos.max_input_bytes)
        image = await server.references.load(body.input_reference, use)
    request = await asked.completed(image, server)
    is_told = body.seconds is not None and body.num_frames is None
    seconds = f"{body.seconds:g}" if is_told else shown_seconds(request)
    job = await create_job(request, seconds, image, server, jobs, caller.owner)
    view = VideoView.of(job, server.settings.media.retention_s)
    return JSONResponse(view.model_dump(), headers=dict(asked.headers))


@router.post(PATH + "/sync", response_class=Response)
async def make_video(body: VideoBody, server: Server, id: SpeechId) -> Response:
    """Make a video now, and answer with the file, as vLLM-Omni does."""
    asked = _Asked.of(body, server, id)

    async def collect() -> tuple[list[bytes], dict[str, str]]:
        content, inference_s, request = await _made(asked, server)
        model = server.videos.model(request.model).name
        return [content], {"X-Model": model, "X-Inference-Time-S": f"{inference_s:.3f}"}

    return WholeResponse(collect, {"Cache-Control": "no-cache", **asked.headers}, MEDIA_TYPE)


def _answer(asked: _Asked, server: ServerState, caller: Caller, base_url: str) -> WholeResponse:
    """Answer with the video; a client that leaves stops the work."""

    async def collect() -> tuple[list[bytes], dict[str, str]]:
        created_s = int(time.time())
        content, inference_s, request = await _made(asked, server)
        if asked.body.response_format == "url":
            data = VideoData(url=await server.media.keep(content, SUFFIX, caller, base_url))
        else:
            encoded = await server.encoders.run(base64.b64encode, content)
            data = VideoData(b64_json=encoded.decode())
        assert request.seed is not None, "the request is complete"
        answer = VideoAnswer(
            id=f"video_{random_hex(24)}",
            model=server.videos.model(request.model).name,
            created=created_s,
            data=[data],
            inference_time_s=inference_s,
            size=f"{request.width}x{request.height}",
            seconds=shown_seconds(request),
            seed=request.seed,
        )
        return [answer.model_dump_json(exclude_none=True).encode()], {}

    headers = {"Cache-Control": "no-cache", **asked.headers}
    return WholeResponse(collect, headers, "application/json")


async def _made(asked: _Asked, server: ServerState) -> tuple[bytes, float, VideoRequest]:
    """Return a video's file, the seconds that the model has taken, and what it has made."""
    request = await asked.completed(asked.body.input_reference, server)
    began_s = time.monotonic()
    video, _ = await server.videos.collect(request)
    inference_s = time.monotonic() - began_s
    content = await encode_video(video, server.encoders)
    reserve(2 * len(content))  # and its base64, or the copy that is kept
    return content, inference_s, request
