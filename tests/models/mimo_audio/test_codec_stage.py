"""Steps and passes of the decoder ask nothing of the device; on a GPU the audio is the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from antiphon.engine.model_runner.ar_model import Inputs
from antiphon.engine.plan import CodecChunk
from antiphon.models.mimo_audio.codec_stage import load_codec
from antiphon.models.mimo_audio.language_model import MiMoAudioModel
from antiphon.models.mimo_audio.runner import load_language_model
from antiphon.models.spec import LoadContext
from tests.models.mimo_audio.oracle.record import random_codes
from tests.models.mimo_audio.test_parity import decode, groups_of

SIZES = (32, 32, 8, 8, 8, 8, 8, 8)
ASKING = ("_local_scalar_dense", "is_nonzero", "nonzero", "masked_select", "equal", "lift_fresh")
"""Operators that wait for the device, or bring numbers of the host to it."""


class AskNothing(TorchDispatchMode):
    """Refuses operators that ask the device, or wait for it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        assert function.__name__.split(".")[0] not in ASKING, f"{function} in a step"
        return function(*arguments, **(options or {}))


def test_the_check_sees_a_question() -> None:
    with pytest.raises(AssertionError, match="in a step"), AskNothing():
        int(torch.ones(2)[0])


@torch.inference_mode()
def test_a_step_asks_nothing(checkpoint: Path) -> None:
    model = load_language_model(LoadContext(checkpoint, "cpu", "float32", 3))
    assert isinstance(model, MiMoAudioModel)
    slots = torch.tensor([0, 2])
    shape = model.sampling_shape((0, 2))
    hidden = torch.randn(2, model.width)

    def step(inputs: Inputs) -> None:
        frames = model.sample(hidden, inputs, shape)  # type: ignore[arg-type]
        model.commit(frames, inputs, is_replay=False)

    with AskNothing():
        step(model.embed(slots))
        step(model.embed(slots))
    assert model.slots.frames.tolist()[:3] == [2, 0, 2]


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
