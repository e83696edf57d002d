"""Checkpoints with Python code of their own, which runs only if a setting allows it."""

from pathlib import Path

from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError


def check_trust(context: LoadContext) -> Path:
    """Return the checkpoint's directory if its code may be run.

    Raises:
        ModelLoadError: the code is not allowed to run; the message names the setting.
    """
    if context.path is None:
        raise ModelLoadError("A model that brings its own code needs its checkpoint's directory.")
    if not context.trusts_remote_code:
        files = ", ".join(sorted(file.name for file in context.path.glob("*.py"))) or "none"
        raise ModelLoadError(
            f"{context.path}: this model is run by Python code of its checkpoint ({files}), which"
            " may do whatever this process may. Read it, and if you trust it set"
            " model.trust_remote_code (--trust-remote-code); of a further model, set it in"
            " its own table, [[models.more]]."
        )
    return context.path
