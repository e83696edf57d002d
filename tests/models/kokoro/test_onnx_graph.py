"""Exports that hide durations or draw noise are changed; the others stay as they are."""

from pathlib import Path

import numpy as np
import pytest

from antiphon.models.kokoro.onnx_graph import NOISE_LENGTH, with_durations, with_given_noise
from antiphon.models.kokoro.onnx_network import OnnxNetwork

FOLDER = Path(__file__).parent
IDS = tuple(range(43, 173))  # two frames each: more samples than there is noise, so that it repeats
STYLE = np.zeros((1, 256), np.float32)


def read(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def test_an_export_without_noise_stays_as_it_is() -> None:
    network = read("tiny.onnx")
    same, noises = with_given_noise(network)
    assert same == network
    assert not noises


def test_durations_are_found_once() -> None:
    network, found = with_durations(read("tiny.onnx"))
    assert found
    assert with_durations(b"") == (b"", False)
    assert len(network) < len(read("tiny.onnx")) + 40


def test_noise_is_given_by_the_seed() -> None:
    noisy = OnnxNetwork(FOLDER / "tiny_noisy.onnx", 1)
    (first, durations), (again, _), (other, _) = (
        noisy.speak(IDS * 2, STYLE, seed) for seed in ((1, 0), (1, 0), (2, 0))
    )
    plain, same = OnnxNetwork(FOLDER / "tiny.onnx", 1).speak(IDS * 2, STYLE, (1, 0))
    assert durations is not None
    assert same is not None
    np.testing.assert_array_equal(durations, same)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    noise = first - plain
    assert len(noise) > NOISE_LENGTH
    # A normal number times a uniform one: mean 0, variance 1/3.
    assert abs(float(noise.mean())) < 0.01
    assert float(noise.var()) == pytest.approx(1 / 3, rel=0.03)


@pytest.mark.parametrize("cut", [1, 100, 2000])
def test_files_that_are_cut_off_are_told(cut: int) -> None:
    with pytest.raises(IndexError):
        with_given_noise(read("tiny_noisy.onnx")[:-cut])
