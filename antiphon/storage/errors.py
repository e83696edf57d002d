"""Errors of what is kept: voices, jobs, files, and the data folder itself.

InvalidRequestError               400  invalid_request_error
├── UnknownMediaError             404                          media_not_found
├── UnknownJobError               404                          job_not_found
├── VideoNotReadyError            404                          video_not_ready
├── VideoFailedError              422                          video_failed
├── UnknownConsentError           404                          consent_not_found
├── NotOwnerError                 403                          permission_denied
├── JobStateError                 409                          invalid_job_state
├── TooManyJobsError              400                          too_many_jobs
└── StorageQuotaError             400                          storage_quota_exceeded
StorageError                      500  server_error            storage_error
├── StorageBusyError              503                          storage_busy
└── StorageFullError              507                          insufficient_storage
"""

from antiphon.errors import AntiphonError, InvalidRequestError, shortened


class UnknownMediaError(InvalidRequestError):
    """There is no such file, or it has been deleted since."""

    status = 404
    code = "media_not_found"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"There is no file '{shortened(key)}'. What is older than media.retention_s is deleted."
        )


class UnknownJobError(InvalidRequestError):
    status = 404
    code = "job_not_found"

    def __init__(self, id: str, noun: str = "job") -> None:
        super().__init__(f"There is no {noun} '{shortened(id)}'.", param="id")


class JobStateError(InvalidRequestError):
    """A job cannot be changed in this way where it is."""

    status = 409
    code = "invalid_job_state"

    def __init__(self, action: str, state: str) -> None:
        super().__init__(f"A job that is {state} cannot be changed: {action} is not possible.")


class TooManyJobsError(InvalidRequestError):
    """The server keeps as many jobs as it may."""

    code = "too_many_jobs"

    def __init__(self, max_jobs: int, setting: str = "jobs.max_jobs") -> None:
        super().__init__(
            f"There are {max_jobs} jobs and videos already ({setting}): delete some of them first."
        )


class UnknownConsentError(InvalidRequestError):
    status = 404
    code = "consent_not_found"

    def __init__(self, id: str) -> None:
        super().__init__(f"There is no consent '{id}'.", param="consent")


class VideoNotReadyError(InvalidRequestError):
    """A video that is still being made has no content."""

    status = 404
    code = "video_not_ready"

    def __init__(self, id: str) -> None:
        super().__init__(
            f"The video '{shortened(id)}' is not ready yet: GET /v1/videos/{shortened(id)} shows"
            " how far it is.",
            param="id",
        )


class VideoFailedError(InvalidRequestError):
    """A video that could not be made has no content."""

    status = 422
    code = "video_failed"

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(f"The video '{shortened(id)}' has failed: {reason}", param="id")


class NotOwnerError(InvalidRequestError):
    """It may be used, but not changed: it has another owner."""

    status = 403
    code = "permission_denied"


class StorageQuotaError(InvalidRequestError):
    """What is kept would be more than is allowed."""

    code = "storage_quota_exceeded"

    def __init__(self, num_bytes: int, num_bytes_left: int, setting: str) -> None:
        super().__init__(
            f"The request may need {_gigabytes(num_bytes)} of disk; {_gigabytes(num_bytes_left)} of"
            f" {setting} are left. Ask for less, choose a compressed format, or delete jobs or"
            " videos."
        )


class StorageError(AntiphonError):
    """The data folder cannot be read or written; nothing of the request was kept."""

    code = "storage_error"


class StorageBusyError(StorageError):
    """Another process has the database locked."""

    status = 503
    code = "storage_busy"
    retry_after_s = 5.0

    def __init__(self) -> None:
        super().__init__("The server's database is locked by another process: nothing was stored.")


class StorageFullError(StorageError):
    """There is no room left for what was to be kept."""

    status = 507
    code = "insufficient_storage"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or "The server's data folder is full: nothing was stored.")


def _gigabytes(num_bytes: int) -> str:
    return f"{max(0, num_bytes) / 1e9:.3g} GB"
