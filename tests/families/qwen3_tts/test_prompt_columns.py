"""Prompts as columns of integers become the states that PyTorch makes: in an interpreter, too."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.kernels import DEVICE, why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.engine.model_runner.ar_model import PromptSpan, SlotStart
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import (
    FusedLanguageModel,
    LanguageModel,
    load_language_model,
)
from antiphon.families.qwen3_tts.prompt_layout import Qwen3TTSRequest
from antiphon.nn import kernels
from antiphon.nn.device_writes import PackedUpload
from tests.families.qwen3_tts.lm import made_prompt

pytestmark = pytest.mark.gpu

NUM_SLOTS, MAX_POSITIONS = 8, 128


@pytest.fixture
def model(checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> FusedLanguageModel:
    monkeypatch.setattr(kernels, "run_on", lambda tensor: True)
    path = checkpoint("tiny", CheckpointTask.BASE)
    loaded = load_language_model(
        LoadContext(path, DEVICE.type, "float32", NUM_SLOTS), MAX_POSITIONS
    )
    assert isinstance(loaded, FusedLanguageModel)
    return loaded


@pytest.fixture
def prompts(checkpoint: Callable[..., Path]) -> dict[int, Prompt]:
    """Prompts by slot: ids alone, a voice's vector, recordings of one frame and of several."""
    config = load_config(checkpoint("tiny", CheckpointTask.BASE))
    frames = {5: None, 0: 0, 3: 1, 6: 12, 2: 7}
    return {
        slot: made_prompt(config, seed=slot, num_reference_frames=count)
        for slot, count in frames.items()
    }


def started(
    model: LanguageModel, prompts: dict[int, Prompt], num_made: int
) -> dict[int, Qwen3TTSRequest]:
    """Begin requests that made some frames before they lost a slot; return them by slot."""
    rng = np.random.default_rng(num_made)
    num_groups = model.slots.frame_store.shape[2]
    starts = []
    for slot, prompt in prompts.items():
        made = rng.integers(0, 2048, (num_made, num_groups))
        starts.append(SlotStart(slot, prompt, model.open(prompt, made), made, num_made))
    uploads = PackedUpload(DEVICE)
    model.start(starts, uploads)
    uploads.send()
    return {each.slot: each.request for each in starts}


@pytest.mark.parametrize("num_made", [0, 3])
@torch.inference_mode()
def test_columns_are_embedded_as_by_pytorch(
    model: FusedLanguageModel, prompts: dict[int, Prompt], num_made: int
) -> None:
    spans = []
    for slot, request in started(model, prompts, num_made).items():
        num_positions, middle = prompts[slot].num_positions + num_made, 4
        spans += [
            PromptSpan(slot, request, 0, middle),
            PromptSpan(slot, request, middle, num_positions),
        ]
    ids = torch.from_numpy(model.prompt_ids(spans)).to(DEVICE)
    assert torch.equal(model.embed_ids(ids), LanguageModel.embed_prompts(model, spans))


@pytest.mark.parametrize("num_made", [0, 3])
@torch.inference_mode()
def test_slots_go_on_after_the_frames_before_theirs(
    model: FusedLanguageModel, prompts: dict[int, Prompt], num_made: int
) -> None:
    table = model.talker.frame_table
    for slot, request in started(model, prompts, num_made).items():
        expected = table.rows[model._codec_tokens.bos]
        if len(request.lead):
            expected = table.frames(torch.from_numpy(request.lead[-1]).to(DEVICE))
        assert torch.equal(model.pending[slot], expected)
