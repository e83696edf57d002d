"""The AudioVAE for GPUs: as the exact one, whoever else is there and however frames are grouped."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.codec.graph_decoder import GraphDecoder
from antiphon.contracts.types import Samples
from antiphon.engine.plan import CodecChunk
from antiphon.families.voxcpm2.audio_vae import VAEDecoder
from antiphon.families.voxcpm2.audio_vae_fused import FusedVAEDecoder
from antiphon.families.voxcpm2.audio_vae_stages import _multiplied
from antiphon.families.voxcpm2.checkpoint import vae_layout
from antiphon.families.voxcpm2.config import AudioVAEConfig, VoxCPM2Config, load_config
from antiphon.families.voxcpm2.request import frames_of
from antiphon.nn.codec_layers.frame_table import empty_table
from antiphon.nn.precision import exact_float32
from tests.kernels import DEVICE, why_not_here
from tests.nn.kernels.compiler import H200, compiling

NUM_SLOTS, NUM_FRAMES, PATCH_SIZE, LATENT_DIM = 2, 3, 2, 8
MIN_SNR_DB = 50.0  # found: 59
FULL = AudioVAEConfig()
MINI = replace(FULL, latent_dim=LATENT_DIM, decoder_dim=32, decoder_rates=(3, 2))
PATCHES = (
    np.random.default_rng(0)
    .normal(size=(NUM_SLOTS, NUM_FRAMES, PATCH_SIZE * LATENT_DIM))
    .astype(np.float32)
)

Make = Callable[[str, tuple[int, ...]], Tensor]


def weights_of(config: AudioVAEConfig, make: Make) -> Mapping[str, Tensor]:
    layout = vae_layout(config).items()
    made = {name: make(name, shape) for name, shape in layout if name.startswith("decoder.")}
    return _multiplied(made)


def random(name: str, shape: tuple[int, ...]) -> Tensor:
    made = torch.randn(shape, generator=torch.Generator().manual_seed(len(name) + sum(shape)))
    if name.endswith(("weight_g", "alpha")):
        made = made.sigmoid() + 0.5
    if name.endswith("weight_g"):  # as small as keeps samples within their range
        made = made * 0.5
    return made.to(DEVICE)


def config_of(checkpoint: Path, vae: AudioVAEConfig) -> VoxCPM2Config:
    config = load_config(checkpoint)
    return replace(config, vae=vae, patch_size=PATCH_SIZE, feature_size=vae.latent_dim)


def snr_db(actual: Samples, wanted: Samples) -> float:
    return float(10 * np.log10(np.square(wanted).sum() / np.square(actual - wanted).sum()))


@pytest.mark.gpu
@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "they run here")
def test_audio_is_that_of_the_exact_decoder_in_any_grouping_and_company(checkpoint: Path) -> None:
    config = config_of(checkpoint, MINI)
    exact = VAEDecoder.of(weights_of(MINI, random), config)
    latents = torch.from_numpy(PATCHES).view(NUM_SLOTS, -1, LATENT_DIM).to(DEVICE)
    with exact_float32():
        wanted = exact.decode_whole(latents).cpu().numpy()
    codec = GraphDecoder(
        FusedVAEDecoder.of(exact),
        num_quantizers=config.frame_size,
        sample_rate_hz=MINI.out_sample_rate,
        samples_per_frame=config.samples_per_frame,
    )
    store = torch.from_numpy(np.stack([frames_of(each) for each in PATCHES])).to(DEVICE)
    state = codec.open(NUM_SLOTS)
    parts: dict[int, list[Samples]] = {0: [], 1: []}
    for chunks in ([(0, 0, 2), (1, 0, 1)], [(1, 1, 2), (0, 2, 1)]):
        made = codec.launch([CodecChunk(*each) for each in chunks], store, state).result()
        for slot, samples in made.items():
            parts[slot].append(samples)
    for slot, expected in enumerate(wanted):
        together = np.concatenate(parts[slot])
        assert snr_db(together, expected) > MIN_SNR_DB
        codec.reset(state, slot)
        chunk = CodecChunk(slot, 0, NUM_FRAMES)
        alone = codec.launch([chunk], store, state).result()[slot]
        if DEVICE.type == "cuda":
            np.testing.assert_array_equal(alone, together)
        else:  # the interpreter adds as NumPy does, by shape
            np.testing.assert_allclose(alone, together, atol=5e-3)


@pytest.mark.slow  # dozens of kernels are compiled
@pytest.mark.filterwarnings("ignore")  # Triton tells of changes to come
def test_it_compiles_at_full_size(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = compiling(monkeypatch, H200)
    config = replace(config_of(checkpoint, FULL), patch_size=4)
    weights = weights_of(FULL, lambda _, shape: torch.zeros(shape, device="meta"))
    decoder = FusedVAEDecoder.of(VAEDecoder.of(weights, config))
    state = decoder.open(65)
    frames = torch.zeros(64, config.frame_size, dtype=torch.int64, device="meta")
    decoder.decode(frames, empty_table(64, torch.device("meta")), state, 16)
    expected = {"_begin_latents", "_depthwise", "_scaled_snake", "_causal_conv", "_samples"}
    assert expected <= compiler.names
    assert not compiler.too_large()
