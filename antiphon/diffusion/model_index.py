"""Components of a checkpoint in diffusers' layout, from its model_index.json, without torch."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError

MODEL_INDEX = "model_index.json"


@dataclass(frozen=True, slots=True)
class ModelIndex:
    """The components of a checkpoint, each in a folder of its name.

    Attributes:
        pipeline: diffusers' class that the checkpoint was saved by.
        settings: other entries of the file, such as ``boundary_ratio``.
    """

    path: Path
    pipeline: str
    components: Mapping[str, str]
    settings: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> "ModelIndex":
        """Read the index of a checkpoint's directory; raises ModelLoadError."""
        section = ConfigSection.read(path / MODEL_INDEX)
        components: dict[str, str] = {}
        settings: dict[str, Any] = {}
        for key, value in section.values.items():
            if isinstance(value, list) and len(value) == 2:
                if isinstance(value[1], str):  # null: an optional component that is not there
                    components[key] = value[1]
            elif not key.startswith("_"):
                settings[key] = value
        for name in components:
            if (path / name / "config.json").is_file():
                ConfigSection.read(path / name / "config.json")
        return cls(path, section.text("_class_name"), components, settings)

    def check(self, name: str, *classes: str) -> str:
        """Return the class of a component; raises ModelLoadError.

        Args:
            classes: supported classes; none: any.
        """
        found = self.components.get(name)
        if found is None:
            raise ModelLoadError(f"{self.path / MODEL_INDEX}: '{name}' is missing")
        if classes and found not in classes:
            raise ModelLoadError(
                f"{self.path / MODEL_INDEX}: '{name}' is a {found!r};"
                f" only {' or '.join(classes)} is supported"
            )
        return found

    def check_all(self, wanted: Mapping[str, Collection[str]]) -> None:
        """Check components, by their names and supported classes; see `check`."""
        for name, classes in wanted.items():
            self.check(name, *classes)

    def config(self, name: str) -> ConfigSection:
        """Return the configuration of a component; raises ModelLoadError if there is none."""
        for file in ("config.json", "scheduler_config.json"):
            if (self.path / name / file).is_file():
                return ConfigSection.read(self.path / name / file)
        raise ModelLoadError(f"{self.path / name}: there is no configuration")
