"""The voices of a model, read from its files without loading it."""

from antiphon.config.sources import load_settings
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompter
from antiphon.contracts.types import Voice
from antiphon.errors import ModelLoadError
from antiphon.families.registry import resolve


def own_voices(model: str | None) -> tuple[Voice, ...]:
    """Return the voices of a model, or of that of the settings, without loading it.

    Raises:
        ModelLoadError: there is no such model, or it has no voices.
    """
    family, path = resolve(load_settings({"model.source": model}).model.source)
    speaking = [family.tasks[name] for name in ("speech", "chat_voice") if name in family.tasks]
    if not speaking:
        raise ModelLoadError(f"'{model}' has no voices: it serves {', '.join(family.tasks)}.")
    prompter: Prompter = speaking[0].prompter.resolve()(LoadContext(path))
    return prompter.capabilities.voices
