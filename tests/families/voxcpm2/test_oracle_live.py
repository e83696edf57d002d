"""The official package, installed beside us, says what was recorded, and what we say, live."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from antiphon.families.voxcpm2.audio_vae_stages import load_codec, load_voice_encoder
from antiphon.families.voxcpm2.checkpoint import model_layout, vae_layout
from antiphon.families.voxcpm2.config import load_config
from antiphon.families.voxcpm2.language_model import load_runner
from antiphon.families.voxcpm2.prompt import VoxCPM2Prompter
from antiphon.families.voxcpm2.request import frames_of
from antiphon.families.voxcpm2.sizes import make_checkpoint as make_files
from tests.engine.drive import generate
from tests.families.voxcpm2.conftest import context_of
from tests.families.voxcpm2.oracle.cases import CASES
from tests.families.voxcpm2.random_checkpoint import make_checkpoint
from tests.families.voxcpm2.speaking import decode, patches
from tests.families.voxcpm2.test_parity import AUDIO_TOLERANCE, RECORDED, TOLERANCE, prompt_of

pytestmark = pytest.mark.oracle

ROOT = Path(__file__).parents[3]
DIRECTORY = ROOT / ".venv-oracle-voxcpm2"
OFFICIAL = "tests.families.voxcpm2.oracle.official"
PACKAGES = ("voxcpm==2.0.3", "einops==0.8.2")


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """Return the environment of a process that finds the official package; installs it once."""
    pytest.importorskip("transformers", reason="needs the extra 'omni'")
    directory = Path(os.environ.get("VOXCPM_ORACLE", DIRECTORY))
    if not (directory / "voxcpm").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        done = subprocess.run([*command, "--target", directory, *PACKAGES], check=False)
        if done.returncode:
            pytest.skip("the package registry cannot be reached")
    path = {"PYTHONPATH": str(ROOT), "VOXCPM_ORACLE": str(directory), "OMP_NUM_THREADS": "1"}
    return {**os.environ, **path}


def run_official(source: Path, target: Path, environment: dict[str, str]) -> None:
    command: list[str | Path] = [sys.executable, "-m", OFFICIAL, source, target]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def say(checkpoint: Path, file: Path, environment: dict[str, str]) -> dict[str, np.ndarray]:
    run_official(checkpoint, file, environment)
    with np.load(file) as arrays:
        return dict(arrays)


def test_what_was_recorded_is_what_it_says(
    checkpoint: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    live = say(checkpoint, tmp_path / "live.npz", environment)
    with np.load(RECORDED) as recorded:
        assert live.keys() == {*recorded.keys()}
        for name, array in live.items():
            np.testing.assert_allclose(array, recorded[name], atol=TOLERANCE)


def test_tensors_of_the_published_size_have_the_official_names_and_shapes(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    make_files(tmp_path, size="2b", dtype="bfloat16")
    file = tmp_path / "config.json"
    run_official(file, tmp_path / "shapes.json", environment)
    found = json.loads((tmp_path / "shapes.json").read_text(encoding="utf-8"))
    config = load_config(tmp_path)
    ours = {f"audio_vae.{name}": [*each] for name, each in vae_layout(config.vae).items()}
    ours |= {name: [*each] for name, each in model_layout(config).items()}
    assert found.pop("audio_vae.decoder.sr_bin_boundaries") == [3]
    assert found == ours


def test_a_checkpoint_with_plain_branches_says_the_same(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    make_checkpoint(tmp_path, seed=3)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    config["lm_config"]["use_mup"] = False
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    live, context = say(tmp_path, tmp_path / "live.npz", environment), context_of(tmp_path)
    runner, codec = load_runner(context, max_positions=256), load_codec(context)
    prompter, encoder = VoxCPM2Prompter(context), load_voice_encoder(context)
    prompter.use_encoder(lambda recording: encoder.encode(recording).data)
    for name, case in CASES.items():
        prompt, wanted = prompt_of(prompter, case), live[f"{name}.patches"]
        frames = [*frames_of(wanted)]
        # Each after the official ones before it: this network magnifies what was rounded in a
        # patch, differently on each processor, in all that follow.
        for number in range(len(wanted)):
            spoken = generate(runner, {0: prompt}, number + 1, before={0: frames[:number]})[0]
            np.testing.assert_allclose(patches(spoken)[number], wanted[number], atol=5e-5)
        if case.has_audio:
            samples = decode(codec, frames, context=prompt.context_frames)
            np.testing.assert_allclose(samples, live[f"{name}.audio"], atol=AUDIO_TOLERANCE)
