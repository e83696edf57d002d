"""The errors that a user can meet, with their HTTP statuses, OpenAI types and codes.

Those of what is kept, such as voices and jobs, are in `antiphon.storage.errors`. Messages name the
field, the value and what is allowed. Errors can be pickled: a stage may run in another process than
its caller.
"""

import copyreg
import re
from collections.abc import Iterable, Mapping
from typing import Any

MAX_SHOWN_CHARACTERS = 100
MAX_LISTED = 30

_USERINFO = re.compile(r"""(?<=://)(?:[^/?#\s'"<>]*|[^\s'"<>]*:[^\s'"<>]*)@""")
"""Of URLs; a password that should have been encoded may have a slash."""
_SECRET_PARAMETER = re.compile(
    r"""([?&;][\w.%-]*(?:key|token|secret|sig|passw|pwd|credential|auth)[\w.%-]*=)[^&;#\s'"<>]+""",
    re.IGNORECASE,
)


def redacted(text: str) -> str:
    """Return a text whose URLs have neither userinfo nor secret query parameters."""
    if "://" not in text:
        return text
    return _SECRET_PARAMETER.sub(r"\1***", _USERINFO.sub("***@", text))


def shortened(text: str) -> str:
    """Return a client's text as a message may quote it."""
    cut = text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."
    return cut.encode(errors="replace").decode()


def listed(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    unique = [*dict.fromkeys(names)]
    shown = ", ".join(shortened(name) for name in unique[:MAX_LISTED])
    return f"{shown} and {len(unique) - MAX_LISTED} more" if len(unique) > MAX_LISTED else shown


def how_to_install(extra: str) -> str:
    """Return how to install the packages of an extra, which no package registry describes."""
    return (
        f"run 'scripts/setup {extra}' in a checkout,"
        f" or pip install './antiphon-VERSION-py3-none-any.whl[{extra}]'"
    )


class AntiphonError(Exception):
    """Base of all errors raised on purpose."""

    status = 500
    type = "server_error"
    code = "internal_error"
    retry_after_s: float | None = None

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        message = redacted(message)
        super().__init__(message)
        self.message = message
        self.param = param
        if code is not None:
            self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what has been built: constructors take other arguments than the message."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class InvalidRequestError(AntiphonError):
    """The request is wrong and would be wrong again."""

    status = 400
    type = "invalid_request_error"
    code = "invalid_value"


def invalid(param: str, reason: str, code: str | None = None) -> InvalidRequestError:
    """Return the error for a field whose value is not allowed; ``reason`` has no full stop."""
    return InvalidRequestError(f"Invalid '{param}': {reason}.", param=param, code=code)


def missing(param: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter"
    )


class UnknownModelError(InvalidRequestError):
    """No served model has this name."""

    status = 404
    code = "model_not_found"

    def __init__(self, model: str, available: Iterable[str]) -> None:
        message = f"The model '{shortened(model)}' does not exist. Available: {listed(available)}."
        super().__init__(message, param="model")


class UnservedTaskError(InvalidRequestError):
    """No served model does what is asked for, or the one that is named does not."""

    status = 404
    code = "model_not_found"

    def __init__(self, reason: str, served: Mapping[str, str]) -> None:
        """Report the reason, and by name the tasks that each served model can do."""
        does = [f"{name} ({what})" for name, what in served.items()]
        super().__init__(f"{reason} Served here: {listed(does) or 'nothing'}.", param="model")


class UnknownVoiceError(InvalidRequestError):
    """The model has no voice of this name."""

    status = 404
    code = "voice_not_found"

    def __init__(self, voice: str, available: Iterable[str]) -> None:
        message = f"There is no voice '{shortened(voice)}'. Available: {listed(available)}."
        super().__init__(message, param="voice")


class InputTooLongError(InvalidRequestError):
    """The text is longer than the server accepts."""

    code = "string_above_max_length"

    def __init__(self, num_characters: int, max_characters: int, param: str = "input") -> None:
        reason = f"{num_characters} characters; at most {max_characters} are allowed"
        super().__init__(f"Invalid '{param}': {reason}.", param=param)


class UnspeakableTextError(InvalidRequestError):
    """The text contains nothing that the voice can pronounce.

    Attributes:
        words: words of the text, the first ones if there are many; none of pauses alone.
    """

    code = "unspeakable_text"

    def __init__(self, words: tuple[str, ...], voice: str = "", param: str = "input") -> None:
        shown = ", ".join(f"'{word[:40]}'" for word in words[:5]) or "it has only pauses"
        more = ", ..." if len(words) > 5 else ""
        speaker = f"voice '{voice}'" if voice else "voice"
        reason = f"the {speaker} can speak none of it: {shown}{more}"
        super().__init__(f"Invalid '{param}': {reason}.", param=param)
        self.words = words


class AuthenticationError(AntiphonError):
    """The API key is missing or wrong."""

    status = 401
    type = "invalid_request_error"
    code = "invalid_api_key"


class IdleError(AntiphonError):
    """A connection on which no message has come for too long."""

    status = 408
    type = "invalid_request_error"
    code = "timeout"

    def __init__(self, max_idle_s: float) -> None:
        super().__init__(f"No message came for {max_idle_s:g} seconds: the connection ends.")


class SlowRequestError(AntiphonError):
    """A body that takes so long to arrive that it is not waited for."""

    status = 408
    type = "invalid_request_error"
    code = "timeout"


class RequestTooLargeError(AntiphonError):
    """The body is larger than the server accepts."""

    status = 413
    type = "invalid_request_error"
    code = "request_too_large"


class RateLimitError(AntiphonError):
    """More was asked than the server can serve without gaps; try again later."""

    status = 429
    type = "rate_limit_error"
    code = "rate_limit_exceeded"

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class OverloadedError(RateLimitError):
    """One stream more would make others stutter, or wait too long for its first sound."""

    code = "overloaded"


class MemoryShareError(RateLimitError):
    """The requests of one caller hold as much memory as one caller's may."""


class UnavailableError(AntiphonError):
    """The server is starting, draining or broken."""

    status = 503
    code = "overloaded"

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class MemoryFullError(UnavailableError):
    """The requests under way hold all memory that there is for requests."""


class ModelLoadingError(UnavailableError):
    """The model is not in memory yet, or there is no room for it at the moment."""

    code = "model_loading"


class ReplicaLostError(UnavailableError):
    """The process that was to serve the request is gone, or does not answer."""

    code = "replica_lost"


class EngineError(AntiphonError):
    """The model failed while it was generating."""

    code = "engine_error"


class EngineFailedError(EngineError):
    """The engine is broken for good, and with it every request that was open."""


class SettingsError(AntiphonError):
    """A setting is unknown or has a wrong value; the message names it and its source."""

    code = "invalid_settings"


class ModelLoadError(AntiphonError):
    """A checkpoint cannot be served; the message contains the reason."""

    code = "model_load_failed"
