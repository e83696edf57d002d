"""Each network computes what the published modules did on random weights (`oracle/record`)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from antiphon.families.cosyvoice3.checkpoint import flow_part, vocoder_part
from antiphon.families.cosyvoice3.config import load_config
from antiphon.families.cosyvoice3.flow import MelFlow, Reference
from antiphon.families.cosyvoice3.stream_conv import StreamState
from antiphon.families.cosyvoice3.vocoder import PitchNetwork, Vocoder
from antiphon.families.cosyvoice3.voice_encoder import speaker_fbank, whisper_mel
from tests.families.cosyvoice3.oracle import cases
from tests.families.cosyvoice3.speech import mel_of

LIKE = torch.empty(0)


@pytest.fixture(scope="module")
def recorded() -> Mapping[str, NDArray[np.float32]]:
    with np.load(Path(__file__).parent / "fixtures" / "parity.npz") as file:
        return {name: file[name] for name in file}


def vocoder_of(path: Path) -> tuple[Vocoder, Mapping[str, torch.Tensor]]:
    config = load_config(path).vocoder
    with vocoder_part(path, config).open(like=LIKE) as weights:
        return Vocoder.of(weights, config), weights


@torch.inference_mode()
def test_mel_frames(base: Path, recorded: Mapping[str, Any]) -> None:
    config = load_config(base).flow
    with flow_part(base, config).open(like=LIKE) as weights:
        flow = MelFlow.of(weights, config)
    np.testing.assert_array_equal(flow.noise[[0, 1, 777, 14_999]], recorded["solver_noise"])
    tokens, mel, speaker = map(torch.from_numpy, cases.reference())
    # Chunks end where those of the published code do: after every 25 tokens, with the recording's.
    speech = torch.from_numpy(cases.speech_tokens())
    made = mel_of(flow, speech, Reference(tokens, mel, speaker), 28)
    assert recorded["mel"].std() > 0.5
    np.testing.assert_allclose(made, recorded["mel"], atol=2e-5)


@torch.inference_mode()
def test_samples_and_pitch(base: Path, recorded: Mapping[str, Any]) -> None:
    vocoder, weights = vocoder_of(base)
    mel = torch.from_numpy(cases.vocoder_mel()).T[None]
    pitch = PitchNetwork.of(weights)(mel, StreamState(), is_end=True)
    np.testing.assert_allclose(pitch[0], recorded["pitch"], rtol=1e-6)
    first = torch.zeros(1, dtype=torch.int64)
    samples = vocoder.decode(mel, first, StreamState(), torch.tensor([mel.shape[2]]))[0]
    level = recorded["samples"].std()
    assert level > 1e-3
    # The published code adds phases up in float32.
    np.testing.assert_allclose(samples, recorded["samples"], atol=2e-3 * level)


def test_spectrograms(recorded: Mapping[str, Any]) -> None:
    speech = cases.recording(16_000)
    np.testing.assert_allclose(speaker_fbank(speech)[::5], recorded["fbank"], atol=2e-3)
    np.testing.assert_allclose(whisper_mel(speech)[:, ::5], recorded["whisper"], atol=1e-5)
