"""A recording is encoded in a padded batch as it is encoded alone, in every family that clones."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.errors import InvalidRequestError
from antiphon.families.fish_speech.encoder import load_voice_encoder as load_fish_speech
from antiphon.families.kit.cloned_voices import CODES, Recording
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.families.mimo_audio.audio_encoder import load_voice_encoder as load_mimo_audio
from antiphon.families.voxcpm2.audio_vae_stages import load_voice_encoder as load_voxcpm2
from antiphon.families.voxcpm2.request import CONTINUED, REFERENCE


@dataclass(frozen=True)
class Encoding:
    """An encoder, lengths of recordings in samples, and the parts that are made of them.

    Codes have no tolerance: a tie that rounding decides changes a code, and those after it in its
    frame.
    """

    load: Callable[..., ClonedVoiceEncoder]
    lengths: tuple[int, ...]
    parts: tuple[str, ...] = (CODES,)
    tolerances: dict[str, float] | None = None

    def recording(self, num_samples: int) -> Recording:
        samples = np.random.default_rng(num_samples).normal(0, 0.2, num_samples)
        return Recording(samples.astype(np.float32), self.parts, "ref_audio")


ENCODINGS = {
    "fish_speech": Encoding(load_fish_speech, (1, 2048, 10_241, 20_000)),
    "mimo_audio": Encoding(load_mimo_audio, (12_000, 48_000, 31_234)),
    "voxcpm2": Encoding(
        load_voxcpm2,
        (100, 9_600, 20_001, 70_007),
        (REFERENCE, CONTINUED),
        {"cpu": 1e-5, "cuda": 1e-3},
    ),
}


def load(path: Path, name: str, device: str = "cpu", **how: bool) -> ClonedVoiceEncoder:
    dtype = "float32" if name == "voxcpm2" else "auto"
    return ENCODINGS[name].load(LoadContext(path, device, dtype), **how)


@pytest.mark.parametrize(
    ("name", "device"),
    [
        pytest.param("fish_speech", "cpu", marks=pytest.mark.slow),  # rows of two seconds
        ("mimo_audio", "cpu"),
        ("voxcpm2", "cpu"),
        *(
            pytest.param(
                name,
                "cuda",
                marks=[
                    pytest.mark.gpu,
                    pytest.mark.slow,  # runs the encoder in all shapes
                    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
                ],
            )
            for name in ENCODINGS
        ),
    ],
)
def test_in_a_batch_recordings_are_as_alone(
    name: str, device: str, drawing_checkpoint: Callable[..., Path]
) -> None:
    path, encoding = drawing_checkpoint(name), ENCODINGS[name]
    alone, padding = load(path, name), load(path, name, device, pads=True)
    batch = [encoding.recording(each) for each in encoding.lengths]
    (fitting,) = {padding.batch_of(each) for each in batch}
    assert fitting.max_size >= len(batch)
    for one, made in zip(batch, padding.encode_batch(batch), strict=True):
        for part in encoding.parts:
            values, expected = made.data[part], alone.encode(one).data[part]
            np.testing.assert_array_equal(values, padding.encode(one).data[part])
            assert values.shape == expected.shape
            if encoding.tolerances is None:
                assert (values == expected).all(axis=1).mean() > 0.9
            else:
                np.testing.assert_allclose(values, expected, atol=encoding.tolerances[device])


@pytest.mark.parametrize(
    ("name", "num_samples", "message"),
    [
        ("fish_speech", 0, "Must be more than 0 and at most"),
        ("fish_speech", 10_000_000, "at most"),
        *(("voxcpm2", each, "more than 0") for each in range(3)),  # a sample is three of 48 kHz
        ("voxcpm2", 3_000_000, "60 seconds"),
    ],
)
def test_what_will_not_do_is_refused_before_it_joins_a_batch(
    name: str, num_samples: int, message: str, drawing_checkpoint: Callable[..., Path]
) -> None:
    encoder = load(drawing_checkpoint(name), name)
    with pytest.raises(InvalidRequestError, match=message) as caught:
        encoder.batch_of(ENCODINGS[name].recording(num_samples))
    assert caught.value.param == "ref_audio"
