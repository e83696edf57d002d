"""Make a virtual environment with the official Qwen3-TTS package, the oracle of the parity tests.

    python tests/families/qwen3_tts/oracle/setup_oracle.py DIRECTORY

It holds exact versions, apart from our own environment, because the official package pins its
libraries. Tests find it by ``QWEN3_TTS_ORACLE=DIRECTORY``.
"""

import os
import subprocess
import sys
import venv
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

TORCH = "torch==2.13.0"
LIBRARIES = (
    "transformers==4.57.3",
    "accelerate==1.12.0",
    "einops",
    "librosa",
    "numpy",
    "onnxruntime",
    "safetensors",
    "soundfile",
    "sox",
)
OFFICIAL = "qwen-tts==0.1.1"
FILTERBANK_STUB = '''"""Stands in for a module that only the 25 Hz tokenizer calls."""


def fbank(*args: object, **kwargs: object) -> object:
    raise NotImplementedError("the oracle has no torchaudio")
'''


def set_up(directory: Path) -> Path:
    """Create the environment, or complete one that was cut short; return its Python."""
    venv.create(directory)
    python = directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    _link_torch(_site_packages(python))
    # torch comes first and alone, so that no other package pulls in another build of it.
    for step in ((TORCH,), LIBRARIES, ("--no-deps", OFFICIAL)):
        pip = (sys.executable, "-m", "pip", "--python", python)
        subprocess.run([*pip, "install", "--quiet", *step], check=True)
    _write_torchaudio_stub(_site_packages(python))
    return python


def _link_torch(site_packages: Path) -> None:
    """Share the torch of this environment, which is large, if it is the same version."""
    with suppress(PackageNotFoundError):
        torch = distribution("torch")
        if torch.version.partition("+")[0] == TORCH.partition("==")[2]:
            for name in {file.parts[0] for file in torch.files or ()} - {".."}:
                (site_packages / name).symlink_to(str(torch.locate_file(name)))


def _site_packages(python: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    return Path(found.stdout.strip())


def _write_torchaudio_stub(site_packages: Path) -> None:
    """Write the least package that satisfies ``import torchaudio.compliance.kaldi``.

    The official package imports torchaudio at start, and its builds load only beside the torch
    that they were made for.
    """
    compliance = site_packages / "torchaudio" / "compliance"
    compliance.mkdir(parents=True, exist_ok=True)
    (site_packages / "torchaudio" / "__init__.py").write_text("", encoding="utf-8")
    (compliance / "__init__.py").write_text("", encoding="utf-8")
    (compliance / "kaldi.py").write_text(FILTERBANK_STUB, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} DIRECTORY")
    sys.stdout.write(f"{set_up(Path(sys.argv[1]))}\n")
