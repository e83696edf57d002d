"""State of a job: a long text that is spoken in the background, or a video."""

from dataclasses import dataclass
from enum import StrEnum, auto


class JobKind(StrEnum):
    """What is made in the background."""

    SPEECH = auto()
    VIDEO = auto()

    @property
    def noun(self) -> str:
        """What users call such a job; its ids begin with it."""
        return "job" if self is JobKind.SPEECH else self.value


class JobState(StrEnum):
    """Where a job is."""

    QUEUED = auto()
    RUNNING = auto()
    PAUSED = auto()
    COMPLETED = auto()
    FAILED = auto()
    CANCELLED = auto()

    @property
    def is_final(self) -> bool:
        return self in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How far a job is.

    Attributes:
        fraction: 0 to 1, of the text, or of a video's steps.
        num_segments: Segments of a text, spoken, or taken from before a restart.
        audio_s: their length, before any change of speed.
    """

    fraction: float = 0.0
    num_segments: int = 0
    audio_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """A file that a job has made.

    Attributes:
        sha256: Hexadecimal digest of the content; ``""`` for files of earlier versions.
    """

    key: str
    media_type: str
    num_bytes: int
    duration_s: float
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChapter:
    """Where a chapter is: in which file, and from when to when."""

    title: str | None
    file: int
    start_s: float
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """What a job has made."""

    files: tuple[JobFile, ...]
    chapters: tuple[JobChapter, ...]
    finish_reason: str
    input_tokens: int
    output_tokens: int
    unspoken: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFault:
    """Why a job failed, in the words of an API error."""

    message: str
    type: str
    code: str
    param: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A row of the ledger.

    Attributes:
        owner: Owner's id; ``None`` where keys have no owners.
        body: the request, as JSON, its seed filled in.
        finished_s: Unix time of the end; ``None`` before.
        num_bytes: Disk space in bytes: reserved, or taken by the result.
    """

    id: str
    owner: str | None
    state: JobState
    body: str
    created_s: int
    finished_s: int | None
    progress: JobProgress
    result: JobResult | None
    fault: JobFault | None
    num_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """How many jobs are kept, and how much of the disk they may take.

    Attributes:
        max_owner_jobs: Number of jobs of one owner; 0 for no further limit.
        max_bytes: Bytes of all jobs; 0 for the size of the disk.
        max_owner_bytes: Bytes of one owner's jobs; 0 for no further limit.
        max_crashes: Number of crashed servers after which a job is given up.
        min_free_bytes: so much of the disk stays free.
    """

    max_jobs: int = 1000
    max_owner_jobs: int = 0
    max_bytes: int = 0
    max_owner_bytes: int = 0
    max_crashes: int = 2
    min_free_bytes: int = 0
