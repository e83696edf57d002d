"""Tiny checkpoints of random weights, and what is loaded from them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from antiphon.codec.protocol import StreamingDecoder
from antiphon.contracts.family import LoadContext
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.families.voxcpm2.audio_vae_stages import load_codec, load_voice_encoder
from antiphon.families.voxcpm2.config import load_config
from antiphon.families.voxcpm2.language_model import VoxCPM2Runner, load_runner
from antiphon.families.voxcpm2.prompt import VoxCPM2Prompter
from tests.families.voxcpm2.random_checkpoint import make_checkpoint
from tests.families.weight_edits import write_rows


def context_of(path: Path) -> LoadContext:
    return LoadContext(path=path, device="cpu", dtype="float32", max_slots=4)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("voxcpm2")
    make_checkpoint(path)
    return path


@pytest.fixture(scope="session")
def context(checkpoint: Path) -> LoadContext:
    return context_of(checkpoint)


@pytest.fixture(scope="session")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkpoint whose speech ends by its limit only."""
    path = tmp_path_factory.mktemp("endless")
    make_checkpoint(path)
    zeros = np.zeros(load_config(path).base.hidden_size, np.float32)
    write_rows(path, {"stop_head.weight": {0: zeros, 1: zeros}})  # a tie goes on
    return path


@pytest.fixture(scope="session")
def encoder(context: LoadContext) -> ClonedVoiceEncoder:
    return load_voice_encoder(context)


@pytest.fixture(scope="session")
def prompter(context: LoadContext, encoder: ClonedVoiceEncoder) -> VoxCPM2Prompter:
    made = VoxCPM2Prompter(context)
    made.use_encoder(lambda recording: encoder.encode(recording).data)
    return made


@pytest.fixture(scope="session")
def runner(context: LoadContext) -> VoxCPM2Runner:
    return load_runner(context, max_positions=256)


@pytest.fixture(scope="session")
def endless_runner(endless: Path) -> Callable[..., VoxCPM2Runner]:
    """Return what loads the endless checkpoint, to compute slots one by one or together."""
    return lambda **how: load_runner(context_of(endless), max_positions=256, **how)


@pytest.fixture(scope="session")
def codec(context: LoadContext) -> StreamingDecoder:
    return load_codec(context)
