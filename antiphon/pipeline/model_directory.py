"""Finds the models of a task by what requests call them: served names, aliases, paths."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from antiphon.errors import UnknownModelError, UnservedTaskError
from antiphon.pipeline.runtime import LoadedTask

DEFAULT_MODEL = "default"

M = TypeVar("M", bound=LoadedTask)


class ModelDirectory(Generic[M]):
    """The models of one task by name; base of the services that use them.

    Attributes:
        models: Models by served name; the first one is the default.
    """

    def __init__(
        self,
        models: Mapping[str, M],
        aliases: Mapping[str, str],
        does: str,
        others: Mapping[str, str] | None = None,
    ) -> None:
        """Find ``models``.

        Args:
            aliases: further names of models; "default" is the default one.
            does: Verb for messages, such as "speaks".
            others: Tasks of the served models that are not among these, by their names.
        """
        self.models = models
        self._aliases = aliases
        self._does = does
        self._others = others or {}

    def model(self, name: str | None) -> M:
        """Return a served model by name or alias; raises UnservedTaskError or UnknownModelError."""
        wanted = self._meant(name)
        if not self.models:
            raise UnservedTaskError(f"No served model {self._does}.", self._others)
        if wanted == DEFAULT_MODEL:
            wanted = next(iter(self.models))
        if wanted in self.models:
            return self.models[wanted]
        if wanted in self._others:
            does = f"The model '{wanted}' is not one that {self._does}."
            raise UnservedTaskError(does, {each: self._does for each in self.models})
        for model in self.models.values():
            if model.answers_to(wanted):
                return model
        raise UnknownModelError(wanted, [*self.models, *self._aliases])

    def is_default(self, name: str | None) -> bool:
        """Whether a name, as none, leaves the choice of the model to the server."""
        return self._meant(name) == DEFAULT_MODEL

    def _meant(self, name: str | None) -> str:
        wanted = name or DEFAULT_MODEL
        if wanted in self.models or wanted in self._others:  # a served name is no alias
            return wanted
        return self._aliases.get(wanted, wanted)
