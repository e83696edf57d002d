"""The body of a job, and a job as clients see it."""

from collections.abc import Collection
from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from antiphon.api.errors import validated
from antiphon.api.schemas.error import ErrorDetail
from antiphon.api.schemas.field_rules import KnownMembers
from antiphon.api.schemas.speech import SpeechBody, Text
from antiphon.contracts.well_formed import StrictModel
from antiphon.errors import InputTooLongError, InvalidRequestError
from antiphon.storage.job import Job, JobState

MAX_CHAPTERS = 1000
MAX_TITLE_CHARACTERS = 500

_OWN = ("input", "chapters", "output", "stream", "stream_format")


class ChapterBody(KnownMembers):
    """A part of a long text."""

    input: Text
    title: Annotated[Text, Field(max_length=MAX_TITLE_CHARACTERS)] | None = None


class SpeechJobBody(StrictModel):
    """A long text, whole or in chapters, and the fields of a speech request for all of it."""

    model_config = ConfigDict(extra="allow")

    input: Text | None = Field(None, description="The text; or else:")
    chapters: Annotated[list[ChapterBody], Field(min_length=1, max_length=MAX_CHAPTERS)] | None = (
        Field(None, description="Its parts, each with a title if it has one.")
    )
    output: Literal["file", "chapters"] = Field(
        "file", description="One file for all chapters, or one for each."
    )

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if (self.input is None) == (self.chapters is None):
            raise InvalidRequestError("Give either 'input' or 'chapters'.", param="input")
        return self

    @property
    def parts(self) -> list[ChapterBody]:
        """The chapters; a text without any is one."""
        return self.chapters or [ChapterBody(input=self.input or "")]

    @property
    def text_field(self) -> str:
        """Name of the member that has the text."""
        return "input" if self.chapters is None else "chapters"

    def check_length(self, max_characters: int) -> None:
        """Refuse a text that is too long; raises InputTooLongError."""
        num_characters = sum(len(part.input) for part in self.parts)
        if num_characters > max_characters:
            raise InputTooLongError(num_characters, max_characters)

    def speech(self, part: ChapterBody) -> SpeechBody:
        """Return the speech request of a chapter; raises InvalidRequestError if it is wrong."""
        shared = {
            name: value for name, value in (self.model_extra or {}).items() if name not in _OWN
        }
        return validated(SpeechBody, {**shared, "input": part.input})

    def kept(self, seed: int, ignored: Collection[str], model: str) -> "SpeechJobBody":
        """Return the members that are known, with a seed and a model."""
        members = self.model_dump(exclude_none=True, exclude=set(ignored))
        return SpeechJobBody.model_validate({"seed": seed, **members, "model": model})


class _View(BaseModel):
    """Made of a dataclass, whose fields may have other names."""

    model_config = ConfigDict(from_attributes=True)


class JobProgressView(_View):
    """How far a job is."""

    fraction: float = Field(description="0 to 1, of the text.")
    segments: int = Field(
        validation_alias="num_segments", description="Pieces of text that have been spoken."
    )
    audio_seconds: float = Field(validation_alias="audio_s")


class JobFileView(BaseModel):
    """A file that a job has made."""

    url: str
    media_type: str
    bytes: int
    duration: float = Field(description="In seconds.")


class JobChapterView(_View):
    """Where a chapter is."""

    title: str | None
    file: int
    start: float = Field(validation_alias="start_s", description="In its file, in seconds.")
    duration: float = Field(validation_alias="duration_s", description="In seconds.")


class JobUsageView(BaseModel):
    """What a job cost."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class SpeechJobView(BaseModel):
    """A job."""

    id: str
    object: Literal["audio.speech.job"] = "audio.speech.job"
    status: JobState
    created_at: int
    finished_at: int | None
    progress: JobProgressView
    files: list[JobFileView]
    chapters: list[JobChapterView]
    finish_reason: str | None = None
    usage: JobUsageView | None = None
    unspoken: list[str] | None = Field(
        None, description="What the voice has left out of the text, if anything."
    )
    error: ErrorDetail | None = None

    @classmethod
    def of(cls, job: Job, path: str) -> "SpeechJobView":
        """Show a job; its files are below ``path``."""
        members: dict[str, Any] = {"files": [], "chapters": []}
        if (result := job.result) is not None:
            members["files"] = [
                JobFileView(
                    url=f"{path}/{job.id}/content/{index}",
                    media_type=file.media_type,
                    bytes=file.num_bytes,
                    duration=file.duration_s,
                )
                for index, file in enumerate(result.files)
            ]
            members["chapters"] = [JobChapterView.model_validate(each) for each in result.chapters]
            members["finish_reason"] = result.finish_reason
            members["unspoken"] = list(result.unspoken) or None
            members["usage"] = JobUsageView(
                input_tokens=result.input_tokens,
                output_tokens=result.output_tokens,
                total_tokens=result.input_tokens + result.output_tokens,
            )
        if job.fault is not None:
            members["error"] = ErrorDetail(**asdict(job.fault))
        return cls(
            id=job.id,
            status=job.state,
            created_at=job.created_s,
            finished_at=job.finished_s,
            progress=JobProgressView.model_validate(job.progress),
            **members,
        )


class SpeechJobList(BaseModel):
    """Jobs, the newest first."""

    object: Literal["list"] = "list"
    data: list[SpeechJobView]
    has_more: bool


class SpeechJobDeleted(BaseModel):
    """A job that is no more."""

    id: str
    object: Literal["audio.speech.job.deleted"] = "audio.speech.job.deleted"
    deleted: Literal[True] = True
