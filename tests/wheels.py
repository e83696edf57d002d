"""Packages of nothing but a name, for tests of what installs them."""

import zipfile
from pathlib import Path


def write_wheel(
    folder: str | Path, name: str, version: str, requires: str = "", extra: str = ""
) -> str:
    """Write a package of nothing but its name; return the file's name."""
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    about += f"Provides-Extra: {extra}\nRequires-Dist: {requires}\n" if extra else ""
    kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    info = f"{name}-{version}.dist-info"
    file = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(Path(folder) / file, "w") as wheel:
        wheel.writestr(f"{info}/METADATA", about)
        wheel.writestr(f"{info}/WHEEL", kind)
        wheel.writestr(f"{info}/RECORD", "")
    return file
