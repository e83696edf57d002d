"""Calls the official package: what it makes of `cases.CASES`, with the noise that we draw.

    VOXCPM_ORACLE=DIRECTORY python -m tests.families.voxcpm2.oracle.official CHECKPOINT FILE

Of a CONFIG.json instead of a checkpoint's directory it writes names and shapes of all tensors.

``DIRECTORY`` holds the package and einops:

    pip install --no-deps --target DIRECTORY voxcpm==2.0.3 einops==0.8.2

Without VOXCPM_ORACLE they are found beside us. It runs in an environment with transformers. Of what
else it imports, nothing is used here but librosa's reading of a file, in whose place is its
resampler.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import soxr
import torch
from numpy.typing import NDArray

from antiphon.nn.sampler import gaussian_noise, seed_words
from tests.families.voxcpm2.oracle.cases import (
    CASES,
    MAX_FRAMES,
    RATE_HZ,
    Case,
    continued,
    reference,
)

_RECORDINGS = {"reference": reference, "continued": continued}


def _load(path: str, sr: int, mono: bool) -> tuple[NDArray[np.float32], int]:
    assert mono
    return soxr.resample(_RECORDINGS[path](), RATE_HZ, sr, quality="HQ"), sr


def _stand_in(name: str, **contents: Any) -> None:
    module = ModuleType(name)
    vars(module).update(contents)
    sys.modules[name] = module


def official_module() -> Any:
    """Return the official package's module of the model."""
    import_module("transformers")  # before modules are replaced that it looks for

    if directory := os.environ.get("VOXCPM_ORACLE"):
        sys.path.insert(0, directory)
    _stand_in("librosa", load=_load)
    _stand_in("torchaudio")
    return import_module("voxcpm.model.voxcpm2")


def load_official(checkpoint: Path) -> Any:
    model = official_module().VoxCPM2Model
    return model.from_local(str(checkpoint), optimize=False, device="cpu")


def shapes_of(config: dict[str, Any]) -> dict[str, list[int]]:
    """Return the official names and shapes of all tensors of a configuration; none is made."""
    module = official_module()
    read = module.VoxCPMConfig.model_validate(config | {"max_length": 16, "dtype": "float32"})
    no_words = SimpleNamespace(vocab={})
    with torch.device("meta"):
        vae = module.AudioVAEV2(config=read.audio_vae_config)
        model = module.VoxCPM2Model(read, no_words, vae, device="cpu")
    return {name: list(each.shape) for name, each in model.state_dict().items()}


def noise_of(seed: int, frame: int, shape: tuple[int, int, int]) -> torch.Tensor:
    """Return what we draw for a frame, in the official order: channels before latents."""
    _, channels, latents = shape
    numbers = gaussian_noise(
        torch.tensor([seed_words(seed)]),
        torch.tensor([frame]),
        torch.zeros(1, dtype=torch.int64),
        channels * latents,
    )
    return numbers.view(1, latents, channels).transpose(1, 2).contiguous()


def speak(model: Any, case: Case) -> dict[str, NDArray[Any]]:
    text = " ".join(case.text.replace("\n", " ").split(" "))
    while "  " in text:
        text = text.replace("  ", " ")
    if case.instructions:
        text = f"({case.instructions}){text}"
    cache = None
    if case.reference or case.prompt_text:
        cache = model.build_prompt_cache(
            prompt_text=case.prompt_text,
            prompt_wav_path="continued" if case.prompt_text else None,
            reference_wav_path="reference" if case.reference else None,
        )
    frames = iter(range(MAX_FRAMES))

    def draw(shape: tuple[int, int, int], **_: Any) -> torch.Tensor:
        return noise_of(case.seed, next(frames), shape)

    with mock.patch("torch.randn", draw):
        audio, ids, patches = model.generate_with_prompt_cache(
            target_text=text,
            prompt_cache=cache,
            max_len=MAX_FRAMES,
            inference_timesteps=case.num_steps,
            cfg_value=case.guidance,
        )
    result = {"ids": ids.numpy(), "patches": patches.flatten(1).numpy()}
    if case.has_audio:
        result["audio"] = audio.flatten().numpy()
    return result


def main(checkpoint: Path, file: Path) -> None:
    """Write what the official package makes of all cases."""
    model = load_official(checkpoint)
    arrays = {
        f"{name}.{part}": array
        for name, case in CASES.items()
        for part, array in speak(model, case).items()
    }
    np.savez_compressed(file, allow_pickle=False, **arrays)
    sys.stdout.write(json.dumps({name: list(each.shape) for name, each in arrays.items()}) + "\n")


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    if source.is_dir():
        main(source, target)
    else:
        shapes = shapes_of(json.loads(source.read_text(encoding="utf-8")))
        target.write_text(json.dumps(shapes), encoding="utf-8")
