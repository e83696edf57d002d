"""The phonemes that the published network knows, by their numbers."""

import json
from collections.abc import Mapping
from pathlib import Path

import antiphon.families.kokoro

_SIZES = Path(antiphon.families.kokoro.__file__).with_name("sizes.json")
VOCABULARY: Mapping[str, int] = json.loads(_SIZES.read_text(encoding="utf-8"))["config.json"][
    "common"
]["vocab"]
