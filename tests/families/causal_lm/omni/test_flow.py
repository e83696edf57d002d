"""What makes a spectrogram of codes, against transformers' for the same noise."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'torch'")

from antiphon.families.causal_lm.omni.flow import FlowModel, FlowWindow  # noqa: E402
from antiphon.families.causal_lm.omni.token2wav import load_networks  # noqa: E402
from antiphon.families.causal_lm.omni.vocoder import OmniVocoder, reach_frames  # noqa: E402


@pytest.fixture(scope="module")
def networks(speaking: Path) -> tuple[FlowModel, OmniVocoder]:
    return load_networks(speaking, like=torch.empty(0))


def window_of(codes: Any, noise: Any) -> FlowWindow:
    length = torch.tensor([noise.shape[1]])
    return FlowWindow(noise, codes, torch.zeros(1, dtype=torch.int64), length, torch.tensor([1]))


@pytest.mark.parametrize("num_codes", [1, 14])
def test_a_spectrogram_is_that_of_transformers(
    reference: Any, networks: tuple[FlowModel, OmniVocoder], num_codes: int
) -> None:
    codes = torch.randint(40, (1, num_codes), generator=torch.Generator().manual_seed(num_codes))
    speaker, official = reference.speaker_map["Ethan"], reference.token2wav.code2wav_dit_model
    torch.manual_seed(3)
    with torch.inference_mode():
        expected = official.sample(speaker["cond"], speaker["ref_mel"], codes)
        torch.manual_seed(3)
        noise = torch.randn(1, 2 * num_codes, 8)
        made = networks[0].solve(window_of(codes, noise))
    torch.testing.assert_close(made.transpose(1, 2), expected, rtol=1e-4, atol=1e-4)
    assert (made - noise).abs().mean() > 0.1


def test_audio_is_that_of_transformers(
    reference: Any, networks: tuple[FlowModel, OmniVocoder]
) -> None:
    mel = 2 * torch.randn(1, 40, 8, generator=torch.Generator().manual_seed(0)) - 2
    with torch.inference_mode():
        expected = reference.token2wav.code2wav_bigvgan_model(mel.transpose(1, 2))
        made = networks[1](mel)
    torch.testing.assert_close(made[0], expected, rtol=1e-4, atol=1e-5)
    assert made.std() > 0.01


def test_audio_depends_on_frames_within_reach_only(networks: tuple[FlowModel, OmniVocoder]) -> None:
    config = networks[1].config
    reach, hop = reach_frames(config), config.hop
    mel = 2 * torch.randn(1, 3 * reach, 8, generator=torch.Generator().manual_seed(1)) - 2
    with torch.inference_mode():
        whole = networks[1](mel)[0].view(-1, hop)
        part = networks[1](mel[:, reach // 2 : -2])[0].view(-1, hop)
    first, last = reach // 2 + reach, 3 * reach - 2 - reach
    torch.testing.assert_close(
        part[reach : last - reach // 2], whole[first:last], rtol=0, atol=1e-6
    )
