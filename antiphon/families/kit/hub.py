"""Checkpoints of the Hugging Face hub: downloaded once, then read from its cache, even offline."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from antiphon.errors import ModelLoadError, how_to_install

_ID = re.compile(r"(?P<repository>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>\S+))?")
NEEDED_FILES = ("*.json", "*.safetensors", "*.txt")  # in folders too


def is_hub_id(model: str) -> bool:
    """Return whether this could be ``ORG/NAME`` or ``ORG/NAME@REVISION``."""
    return _ID.fullmatch(model) is not None


def download(model: str, patterns: Iterable[str]) -> Path:
    """Return the directory of a checkpoint of the hub, its files downloaded; see `ask_hub`."""
    return Path(ask_hub(model, "snapshot_download", allow_patterns=[*patterns]))


def ask_hub(model: str, function: str, **arguments: Any) -> Any:
    """Return what a function of the hub's package returns for a checkpoint; raises ModelLoadError.

    The hub's own variables apply: ``HF_HOME``, ``HF_HUB_OFFLINE``, ``HF_TOKEN`` and others.
    """
    found = _ID.fullmatch(model)
    assert found is not None
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise ModelLoadError(
            f"'{model}' is neither built in nor a directory here; to fetch it from the Hugging"
            f" Face hub: {how_to_install('torch')}"
        ) from error
    call = getattr(huggingface_hub, function)
    try:
        return call(found["repository"], revision=found["revision"], **arguments)
    except _faults() as error:
        raise ModelLoadError(f"'{model}' {_reason(error)}") from error


def _faults() -> tuple[type[Exception], ...]:
    """Return the exceptions of a download, one of them of the underlying HTTP library."""
    from huggingface_hub.errors import HfHubHTTPError

    bases = (base for base in HfHubHTTPError.__bases__ if issubclass(base, Exception))
    return (OSError, ValueError, RuntimeError, *bases)


def _reason(error: BaseException) -> str:
    """Return the reason why a checkpoint cannot be downloaded, in one line."""
    from huggingface_hub import errors

    unreachable = (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, errors.DryRunError)
    if isinstance(error, errors.GatedRepoError):
        return "is gated: accept its terms on the Hugging Face hub and set HF_TOKEN."
    if isinstance(error, errors.RepositoryNotFoundError):
        return "is no directory here, and the hub has no such model, or it needs HF_TOKEN."
    if isinstance(error, errors.RevisionNotFoundError):
        return "has no such revision."
    if isinstance(error, unreachable):
        return "is no directory here, is not downloaded yet, and the hub cannot be reached."
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return f"cannot be fetched from the Hugging Face hub: {reason}"
