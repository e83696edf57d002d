"""A trained voice as a Python distribution: whoever installs it serves the voice by its name."""

import re
import shutil
from pathlib import Path
from string import Template

_PYPROJECT = Template("""[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "antiphon-voice-${name}"
version = "${version}"
description = "The voice ${name} for Antiphon, in the layout of Qwen3-TTS."
readme = "README.md"
license = "${license}"
requires-python = ">=3.11"
dependencies = ["antiphon[torch]"]

[project.entry-points."antiphon.models"]
${name} = "antiphon_voice_${name}:CHECKPOINT"

[tool.hatch.build.targets.wheel]
packages = ["antiphon_voice_${name}"]
""")
_MODULE = Template('''"""The voice ${name}: the directory of its checkpoint."""

from pathlib import Path

CHECKPOINT = Path(__file__).parent / "checkpoint"
''')


def write_package(
    checkpoint: Path, card: Path, out: Path, *, name: str, version: str, license_name: str
) -> None:
    """Write a distribution, ``antiphon-voice-NAME``, that ``pip install`` takes.

    Args:
        checkpoint: directory that `export` wrote; it is copied.
        card: model card, which becomes the README.
        out: directory to be written.
        name: name to serve the voice by, of lower-case letters and digits.
        version: version of the distribution.
        license_name: SPDX expression of the weights' licence.

    Raises:
        ValueError: the name is no part of a module's name.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*", name):
        raise ValueError(f"a name has lower-case letters and digits, and {name!r} has others")
    module = out / f"antiphon_voice_{name}"
    shutil.copytree(checkpoint, module / "checkpoint", dirs_exist_ok=True)
    shutil.copyfile(card, out / "README.md")
    fields = {"name": name, "version": version, "license": license_name}
    for file, template in ((out / "pyproject.toml", _PYPROJECT), (module / "__init__.py", _MODULE)):
        file.write_text(template.substitute(fields), encoding="utf-8")
