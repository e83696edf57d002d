"""The body of a request for a video, and the answers of the two contracts that share its path.

OpenAI's jobs are created by forms, in which every value is a string; NVIDIA Dynamo's clients send
JSON and wait for the video; vLLM-Omni's have further fields. All of them are fields of one body.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from antiphon.api.schemas.field_rules import check_known
from antiphon.api.schemas.picture_fields import VideoPeerFields
from antiphon.api.schemas.pictures import PictureBody
from antiphon.contracts.picture_types import DiffusionParameters, VideoRequest
from antiphon.contracts.pictures import PictureCapabilities
from antiphon.errors import InvalidRequestError, invalid, shortened
from antiphon.pipeline.pictures.videos import INPUT_REFERENCE
from antiphon.storage.job import Job, JobState

DYNAMO_DEFAULTS = {"boundary_ratio": 0.875, "guidance_scale_2": 1.0}
"""What Dynamo's clients send to models with one expert too; it means nothing to those."""

_MAX_SECONDS = 3600
_MAX_POSITIVE = 2**31 - 1
_IMAGE_URL, _FILE_ID = "image_url", "file_id"
_IMAGE_REFERENCE = "image_reference"  # of vLLM-Omni, as JSON in a form
_VIDEO_PARAMS = "video_params"  # the same
_IN_VIDEO_PARAMS = ("width", "height", "num_frames", "fps")
_STATUS = {
    JobState.QUEUED: "queued",
    JobState.RUNNING: "in_progress",
    JobState.COMPLETED: "completed",
    JobState.FAILED: "failed",
}


class VideoBody(VideoPeerFields, PictureBody):
    """A prompt and how to make a video of it."""

    model_config = ConfigDict(populate_by_name=True)

    seconds: float | None = Field(
        None, gt=0, le=_MAX_SECONDS, description="Length; a number, or a string of one."
    )
    num_frames: int | None = Field(
        None, ge=1, le=_MAX_POSITIVE, description="Length; overrides seconds x fps."
    )
    fps: int | None = Field(
        None, ge=1, le=_MAX_POSITIVE, description="Frames a second; default: videos.default_fps."
    )
    width: int | None = Field(None, ge=1, le=_MAX_POSITIVE, description="Instead of size.")
    height: int | None = Field(None, ge=1, le=_MAX_POSITIVE, description="Instead of size.")
    guidance_scale_2: float | None = Field(
        None, description="Of the second expert of models that have one."
    )
    boundary_ratio: float | None = Field(
        None, description="Where the second expert takes over, as a share of the schedule."
    )
    input_reference: Any = Field(
        None,
        description="The first frame: a file of a form; a data:, http(s): or file: address; or"
        ' {"image_url": address}.',
    )
    response_format: Literal["url", "b64_json"] = Field(
        "url", description="Of an answer that is waited for: an address of the video, or itself."
    )
    output_format: Literal["mp4"] = Field("mp4", description="Of the file.")
    stream: bool = Field(False, description="Videos come whole: only false.")
    is_job: bool | None = Field(
        None, alias="async", description="Whether a job is created, or the video is waited for."
    )

    @model_validator(mode="before")
    @classmethod
    def _gathered(cls, body: Any) -> Any:
        """Bring the ways to spell an image to one."""
        if not isinstance(body, Mapping):
            return body
        members = dict(body)
        for name in (_IMAGE_URL, _FILE_ID):  # as forms nest objects
            if (value := members.pop(f"{INPUT_REFERENCE}[{name}]", None)) is not None:
                members[INPUT_REFERENCE] = {name: value}
        if (value := members.pop(_IMAGE_REFERENCE, None)) is not None:
            members.setdefault(INPUT_REFERENCE, _parsed(value))
        if (value := members.pop(_VIDEO_PARAMS, None)) is not None:
            members |= _video_params(_parsed(value), members)
        return members

    @field_validator("stream")
    @classmethod
    def _not_streamed(cls, value: bool) -> bool:
        if value:
            raise InvalidRequestError(
                'Videos are not streamed: create a job ("async": true), which has a progress.',
                param="stream",
            )
        return value

    @field_validator("input_reference")
    @classmethod
    def _an_image(cls, value: Any) -> str | bytes | None:
        if isinstance(value, Mapping):
            check_known(value, (_IMAGE_URL, _FILE_ID), INPUT_REFERENCE)
            if value.get(_FILE_ID) is not None:
                raise InvalidRequestError(
                    "This server keeps no files: send the image itself, or its address as"
                    f" '{_IMAGE_URL}'.",
                    param=INPUT_REFERENCE,
                )
            value = value.get(_IMAGE_URL)
        if isinstance(value, str | bytes) and value:
            return value
        raise InvalidRequestError(
            f"Invalid '{INPUT_REFERENCE}'. It must be a file of a form, an address, or an object"
            f" with '{_IMAGE_URL}'.",
            param=INPUT_REFERENCE,
        )

    @property
    def video_size(self) -> tuple[int | None, int | None]:
        """Width and height in pixels; ``None``: the model's own; raises InvalidRequestError."""
        size = self.width_and_height
        apart = self.width, self.height
        if size == (None, None) or apart in ((None, None), size):
            return apart if size == (None, None) else size
        raise InvalidRequestError(
            "'size' differs from 'width' and 'height': leave one of them out.", param="size"
        )

    def to_domain(
        self, request_id: str, capabilities: PictureCapabilities, default_fps: int
    ) -> VideoRequest:
        """Return the request, still without its image.

        Args:
            request_id: must be unique.
            default_fps: Frames a second unless it has its own.
        """
        fps = self.fps or default_fps
        num_frames = self.num_frames
        if num_frames is None and self.seconds is not None:
            num_frames = max(1, round(self.seconds * fps))
        width, height = self.video_size
        return VideoRequest(
            prompt=self.prompt,
            seed=self.domain_seed,
            negative_prompt=self.negative_prompt,
            model=self.model,
            width=width,
            height=height,
            num_frames=num_frames,
            fps=fps,
            parameters=self._known_parameters(capabilities.parameters),
            id=request_id,
        )

    def _known_parameters(self, used: DiffusionParameters) -> DiffusionParameters:
        """Return the parameters that are given, without defaults of Dynamo's that mean nothing."""
        guidance_2, boundary = self.guidance_scale_2, self.boundary_ratio
        if used.guidance_scale_2 is None and guidance_2 == DYNAMO_DEFAULTS["guidance_scale_2"]:
            guidance_2 = None
        if used.boundary_ratio is None and boundary == DYNAMO_DEFAULTS["boundary_ratio"]:
            boundary = None
        return replace(self.parameters(), guidance_scale_2=guidance_2, boundary_ratio=boundary)


def _parsed(value: Any) -> Any:
    """Return the object that a form's field holds as JSON; anything else as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _video_params(value: Any, beside: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of ``video_params``; those beside it go before them.

    Raises:
        InvalidRequestError: it is no object, or has a member that it cannot have.
    """
    if not isinstance(value, Mapping):
        raise InvalidRequestError(
            f"Invalid '{_VIDEO_PARAMS}'. It must be an object.", param=_VIDEO_PARAMS
        )
    check_known(value, _IN_VIDEO_PARAMS, _VIDEO_PARAMS)
    return {name: each for name, each in value.items() if beside.get(name) is None}


def wants_job(members: Mapping[str, Any], prefer: str, *, is_form: bool) -> bool:
    """Whether a request is OpenAI's, which creates a job, or Dynamo's, which waits for the video.

    ``async`` decides, else the header ``Prefer`` (``respond-async`` or ``wait``). Else a form
    creates a job, since OpenAI's SDKs send forms always. Else JSON is waited for, unless it is
    in OpenAI's words: ``seconds`` as a string, or ``input_reference`` as an object, and neither
    ``nvext`` nor ``response_format``.
    """
    if members.get("async") is not None:
        return str(members["async"]).lower() in ("true", "1")
    preferences = {each.strip().partition("=")[0].lower() for each in prefer.split(",")}
    if preferences & {"respond-async", "wait"}:
        return "respond-async" in preferences
    if is_form:
        return True
    if members.get("nvext") is not None or members.get("response_format") is not None:
        return False
    return isinstance(members.get("seconds"), str) or isinstance(
        members.get(INPUT_REFERENCE), Mapping
    )


class VideoData(BaseModel):
    """A video of an answer: its address, or itself."""

    output_format: Literal["mp4"] = "mp4"
    url: str | None = None
    b64_json: str | None = None


class VideoAnswer(BaseModel):
    """A video that was waited for, in Dynamo's shape."""

    id: str
    object: Literal["video"] = "video"
    model: str
    status: Literal["completed"] = "completed"
    progress: Literal[100] = 100
    created: int
    data: list[VideoData]
    inference_time_s: float
    size: str
    seconds: str
    seed: int


class VideoJobBody(BaseModel):
    """What is kept of a job: all that its video depends on but the image, which lies beside it.

    Attributes:
        seconds: Duration as reported to the client.
    """

    model_config = ConfigDict(frozen=True)

    prompt: str
    negative_prompt: str | None
    model: str
    width: int
    height: int
    num_frames: int
    fps: int
    seed: int
    seconds: str
    parameters: DiffusionParameters
    options: dict[str, Any] = {}

    @property
    def size(self) -> str:
        return f"{self.width}x{self.height}"


class VideoErrorView(BaseModel):
    """Why a job failed."""

    code: str
    message: str
    param: str | None = None
    type: str


class VideoView(BaseModel):
    """A job, in OpenAI's shape."""

    id: str
    object: Literal["video"] = "video"
    created_at: int
    completed_at: int | None = None
    expires_at: int | None = None
    status: str
    progress: int = Field(description="In percent; it never falls.")
    model: str
    prompt: str
    seconds: str
    size: str
    seed: int | None = None
    error: VideoErrorView | None = None
    remixed_from_video_id: None = None

    @classmethod
    def of(cls, job: Job, retention_s: float) -> "VideoView":
        """Show a job; ``retention_s``: how long it is kept after its end, 0 for ever."""
        body = VideoJobBody.model_validate_json(job.body) if job.body else None
        is_done = job.state is JobState.COMPLETED
        expires_at = None
        if retention_s and job.finished_s is not None:
            expires_at = int(job.finished_s + retention_s)
        return cls(
            id=job.id,
            created_at=job.created_s,
            completed_at=job.finished_s if is_done else None,
            expires_at=expires_at,
            status=_STATUS.get(job.state, "failed"),
            progress=100 if is_done else int(100 * job.progress.fraction),
            model=body.model if body else "",
            prompt=body.prompt if body else "",
            seconds=body.seconds if body else "0",
            size=body.size if body else "",
            seed=body.seed if body else None,
            error=None if job.fault is None else VideoErrorView(**asdict(job.fault)),
        )


class VideoList(BaseModel):
    """Jobs, the newest first unless the oldest were asked for first."""

    object: Literal["list"] = "list"
    data: list[VideoView]
    first_id: str | None
    last_id: str | None
    has_more: bool


class VideoDeleted(BaseModel):
    """A job that is no more."""

    id: str
    object: Literal["video.deleted"] = "video.deleted"
    deleted: Literal[True] = True


def shown_seconds(request: VideoRequest) -> str:
    """Return the length of a completed request in its shortest form: ``"4"``, ``"2.04"``."""
    assert request.num_frames is not None, "the request is complete"
    return f"{request.num_frames / request.fps:.3f}".rstrip("0").rstrip(".")


def video_media(variant: str) -> int:
    """Return which of a job's files a variant is; raises InvalidRequestError."""
    if variant not in VARIANTS:
        raise invalid("variant", f"'{shortened(variant)}'. It must be one of {', '.join(VARIANTS)}")
    return VARIANTS.index(variant)


VARIANTS = ("video", "thumbnail", "spritesheet")
"""The files of a completed job, in their order."""
