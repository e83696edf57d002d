"""Steps and passes of the decoder ask nothing of the device; on a GPU the audio is the same."""

from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon.engine.plan import CodecChunk
from antiphon.models.mimo_audio.codec_stage import load_codec
from antiphon.models.mimo_audio.runner import load_language_model
from antiphon.models.spec import LoadContext
from tests.asking import AskNothing, step_asking_nothing
from tests.models.mimo_audio.oracle.record import random_codes
from tests.models.mimo_audio.test_parity import decode, groups_of

SIZES = (32, 32, 8, 8, 8, 8, 8, 8)


def test_the_check_sees_a_question() -> None:
    with pytest.raises(AssertionError, match="in a step"), AskNothing():
        int(torch.ones(2)[0])


@torch.inference_mode()
def test_a_step_asks_nothing(checkpoint: Path) -> None:
    step_asking_nothing(load_language_model(LoadContext(checkpoint, "cpu", "float32", 3)))


def test_a_deterministic_model_is_so_in_all_its_parts(checkpoint: Path) -> None:
    model = load_language_model(LoadContext(checkpoint, "cpu", is_deterministic=True))
    encoder, decoder = model.encoder, model.decoder
    assert encoder.transformer.is_batch_invariant
    assert encoder.narrow.is_batch_invariant
    assert decoder.transformer.is_batch_invariant
    assert decoder.begin.is_batch_invariant


@torch.inference_mode()
def test_a_pass_of_the_decoder_asks_nothing(checkpoint: Path) -> None:
    codec = load_codec(LoadContext(checkpoint, device="cpu"))
    state = codec.open(1)
    with AskNothing():
        for _ in range(3):
            state.frame.fill_(3)
            codec._tick(state)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs need a GPU")
def test_a_gpu_makes_the_same_audio(checkpoint: Path) -> None:
    codes = groups_of(random_codes(SIZES, 60), 261)
    wanted = decode(load_codec(LoadContext(checkpoint, device="cpu")), codes)
    codec = load_codec(LoadContext(checkpoint, device="cuda"))
    made = decode(codec, codes)
    np.testing.assert_allclose(made, wanted, atol=5e-3)  # keys and values have 16 bits there
    np.testing.assert_array_equal(decode(codec, codes, (1,)), made)


def test_slots_side_by_side_are_each_alone(checkpoint: Path) -> None:
    codec = load_codec(LoadContext(checkpoint, device="cpu"))
    streams = [groups_of(random_codes(SIZES, count), 261) for count in (12, 40)]
    alone = [decode(codec, each) for each in streams]
    state, parts = codec.open(2), [[np.zeros(0, np.float32)] for _ in streams]
    store = np.zeros((2, 64, 33), np.int64)
    for slot, stream in enumerate(streams):
        store[slot, : len(stream)] = stream
    for number in range(10):
        chunks = [
            CodecChunk(slot, number, 1, len(stream) if number == len(stream) - 1 else None)
            for slot, stream in enumerate(streams)
            if number < len(stream)
        ]
        for slot, samples in codec.launch(chunks, store, state).result().items():
            parts[slot].append(samples)
    for one, other in zip(alone, parts, strict=True):
        np.testing.assert_array_equal(one, np.concatenate(other))
