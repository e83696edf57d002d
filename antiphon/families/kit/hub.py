"""Checkpoints of the Hugging Face hub: downloaded once, then read from its cache, even offline."""

import re
from collections.abc import Iterable
from pathlib import Path

from antiphon.errors import ModelLoadError, how_to_install

_ID = re.compile(r"(?P<repository>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>\S+))?")
_NEEDED_FILES = ("*.json", "*.safetensors", "*.txt")  # in folders too


def is_hub_id(model: str) -> bool:
    """Return whether this could be ``ORG/NAME`` or ``ORG/NAME@REVISION``."""
    return _ID.fullmatch(model) is not None


def download(model: str, files: Iterable[str] = ()) -> Path:
    """Return the directory of a checkpoint of the hub, after downloading missing files.

    The hub's own variables apply: ``HF_HOME``, ``HF_HUB_OFFLINE``, ``HF_TOKEN`` and others.

    Args:
        model: name accepted by `is_hub_id`.
        files: patterns of needed files beside JSON, text and safetensors.

    Raises:
        ModelLoadError: the checkpoint does not exist or cannot be reached, or the hub's package is
            missing.
    """
    found = _ID.fullmatch(model)
    assert found is not None
    try:
        from huggingface_hub import snapshot_download
    except ModuleNotFoundError as error:
        raise ModelLoadError(
            f"'{model}' is neither built in nor a directory here; to fetch it from the Hugging"
            f" Face hub: {how_to_install('torch')}"
        ) from error
    try:
        directory = snapshot_download(
            found["repository"],
            revision=found["revision"],
            allow_patterns=[*_NEEDED_FILES, *files],
        )
    except _faults() as error:
        raise ModelLoadError(_explain(model, error)) from error
    return Path(directory)


def _faults() -> tuple[type[Exception], ...]:
    """Return the exceptions of a download, one of them of the underlying HTTP library."""
    from huggingface_hub.errors import HfHubHTTPError

    bases = (base for base in HfHubHTTPError.__bases__ if issubclass(base, Exception))
    return (OSError, ValueError, RuntimeError, *bases)


def _explain(model: str, error: BaseException) -> str:
    """Return the reason why a checkpoint cannot be downloaded, in one line."""
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, GatedRepoError):
        return f"'{model}' is gated: accept its terms on the Hugging Face hub and set HF_TOKEN."
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"'{model}' is no directory here, and the Hugging Face hub has no such model; if it is"
            " private, set HF_TOKEN."
        )
    if isinstance(error, RevisionNotFoundError):
        return f"'{model}': the model has no such revision."
    if isinstance(error, LocalEntryNotFoundError | OfflineModeIsEnabled):
        return (
            f"'{model}' is no directory here, has not been downloaded yet, and the Hugging Face"
            " hub cannot be reached."
        )
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return f"'{model}' cannot be fetched from the Hugging Face hub: {reason}"
