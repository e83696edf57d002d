"""The AudioVAE: a stream in any grouping is the whole, and its published file is read."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from antiphon.codec.protocol import StreamingDecoder
from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.kit.cloned_voices import Recording
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.families.voxcpm2.audio_vae import VAEDecoder
from antiphon.families.voxcpm2.audio_vae_stages import load_codec, load_voice_encoder, vae_weights
from antiphon.families.voxcpm2.config import load_config
from antiphon.families.voxcpm2.request import CONTINUED, REFERENCE, frames_of
from tests.families.voxcpm2.conftest import context_of
from tests.families.voxcpm2.oracle.cases import RATE_HZ, reference
from tests.families.voxcpm2.speaking import decode

NUM_FRAMES = 9
PATCHES = np.random.default_rng(0).normal(size=(NUM_FRAMES, 32)).astype(np.float32)


def test_a_stream_in_any_grouping_is_the_same_and_the_whole(
    codec: StreamingDecoder, checkpoint: Path
) -> None:
    frames = [*frames_of(PATCHES)]
    whole = decode(codec, frames)
    for sizes in ((1,) * NUM_FRAMES, (4, 1, 4), (2, 7)):
        np.testing.assert_array_equal(decode(codec, frames, sizes), whole)
    config = load_config(checkpoint)
    like = torch.empty(0)
    network = VAEDecoder.of(vae_weights(checkpoint, config.vae, "decoder.", like=like), config)
    in_one_pass = network.decode_whole(torch.from_numpy(PATCHES).view(1, -1, 8))[0].numpy()
    # Convolutions of another length add in another order.
    np.testing.assert_allclose(whole, in_one_pass, atol=2e-6)
    assert np.abs(whole).max() > 0.1


def test_a_frame_changes_nothing_before_it(codec: StreamingDecoder) -> None:
    changed = PATCHES.copy()
    changed[5] += 1
    one, other = (decode(codec, [*frames_of(each)]) for each in (PATCHES, changed))
    split = 5 * codec.samples_per_frame
    np.testing.assert_array_equal(one[:split], other[:split])
    assert np.abs(one[split:] - other[split:]).max() > 1e-3


def test_latents_pass_as_whole_numbers_exactly(codec: StreamingDecoder) -> None:
    odd = np.array([[0.0, -0.0, 1e-40, -1e30, 3.4e38, 1.1, -1.1, np.pi] * 4], np.float32)
    frames = frames_of(odd)
    assert frames.dtype == np.int64
    from antiphon.families.voxcpm2.request import patches_of

    np.testing.assert_array_equal(patches_of(frames).view(np.int32), odd.view(np.int32))


def test_recordings_are_filled_up_at_the_side_that_is_not_continued(
    encoder: ClonedVoiceEncoder,
) -> None:
    samples = reference()[: RATE_HZ // 25 * 3 + 9]
    parts = (REFERENCE, CONTINUED)
    apart = [*encoder.encode(Recording(samples, parts)).data.values()]
    assert [each.shape for each in apart] == [(4, 32), (4, 32)]
    assert np.abs(apart[0] - apart[1]).max() > 1e-3
    exact = samples[: RATE_HZ // 25 * 3]
    one, other = encoder.encode(Recording(exact, parts)).data.values()
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(one[:2], apart[0][:2], atol=1e-5)  # the resampler looks ahead


@pytest.mark.parametrize("is_nested", [False, True])
def test_the_published_file_of_pytorch_is_read(
    is_nested: bool, codec: StreamingDecoder, checkpoint: Path, tmp_path: Path
) -> None:
    shutil.copytree(checkpoint, tmp_path, dirs_exist_ok=True)
    weights = load_file(tmp_path / "audiovae.safetensors")
    (tmp_path / "audiovae.safetensors").unlink()
    weights["decoder.sr_bin_boundaries"] = torch.tensor([20000, 30000, 40000], dtype=torch.int32)
    torch.save({"state_dict": weights} if is_nested else weights, tmp_path / "audiovae.pth")
    frames = [*frames_of(PATCHES[:2])]
    again = load_codec(context_of(tmp_path))
    np.testing.assert_array_equal(decode(again, frames), decode(codec, frames))
    load_voice_encoder(context_of(tmp_path))


def test_a_file_that_is_wrong_says_so(checkpoint: Path, tmp_path: Path) -> None:
    shutil.copytree(checkpoint, tmp_path, dirs_exist_ok=True)
    weights = load_file(tmp_path / "audiovae.safetensors")
    (tmp_path / "audiovae.safetensors").unlink()
    context = LoadContext(path=tmp_path, device="cpu", dtype="float32")
    with pytest.raises(ModelLoadError, match="audiovae"):
        load_codec(context)
    del weights["decoder.model.0.bias"]
    torch.save(weights, tmp_path / "audiovae.pth")
    with pytest.raises(ModelLoadError, match=r"decoder\.model\.0\.bias"):
        load_codec(context)
    for content in ([1, 2], {"state_dict": {"a": 1}}):
        torch.save(content, tmp_path / "audiovae.pth")
        with pytest.raises(ModelLoadError, match="tensors"):
            load_codec(context)
    (tmp_path / "audiovae.pth").write_bytes(b"no file of PyTorch")
    with pytest.raises(ModelLoadError, match="cannot be read"):
        load_codec(context)
