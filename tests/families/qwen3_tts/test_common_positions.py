"""Common positions of prompts are copied instead of computed: nothing that follows differs.

Not even by rounding: on a CPU, where requests are computed one by one, and on a GPU with
``--deterministic``.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Sampling, SpeechRequest, Voice
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.language_model import Qwen3TTSRunner, load_runner
from antiphon.families.qwen3_tts.prompt import Qwen3TTSPrompter
from tests.engine.copying import BLOCK, CopyingEngine, assert_copies_exactly
from tests.families.qwen3_tts.random_checkpoint import FEW_GROUPS

NUM_FRAMES = 3
FIRST, OTHER = "Good morning to you all.", "Well, hello there."

Build: TypeAlias = Callable[[str], Prompt]


def voice_of(seed: int, num_frames: int | None = None) -> PreparedVoice:
    """Return a voice of a recording; without frames it is a speaker vector alone."""
    rng = np.random.default_rng(seed)
    return PreparedVoice(
        name="Ann",
        family="qwen3_tts",
        ref_text="Ah, so." if num_frames else None,
        speaker_embedding=rng.normal(size=64).astype(np.float32),
        ref_codes=rng.integers(0, 2048, (num_frames, FEW_GROUPS)) if num_frames else None,
    )


def build(prompter: Qwen3TTSPrompter, text: str, **options: Any) -> Prompt:
    voices = prompter.capabilities.voices
    request = SpeechRequest(
        text,
        language=options.pop("language", None),
        instructions=options.pop("instructions", None),
        sampling=Sampling(max_frames=NUM_FRAMES),
        options=options,
    )
    return prompter.build(request, voices[0] if voices else Voice(id="x", name="X"), seed=len(text))


CLONE: dict[str, Any] = {"x_vector_only_mode": True, "ref_audio": voice_of(1)}
ICL: dict[str, Any] = {"ref_audio": voice_of(2, 20)}
LAYOUTS: dict[str, tuple[CheckpointTask, dict[str, Any]]] = {
    "custom": (CheckpointTask.CUSTOM_VOICE, {}),
    "custom, text beside": (CheckpointTask.CUSTOM_VOICE, {"non_streaming_mode": False}),
    "design": (CheckpointTask.VOICE_DESIGN, {"instructions": "A calm old man."}),
    "speaker vector": (CheckpointTask.BASE, CLONE),
    "recording": (CheckpointTask.BASE, ICL),
    "recording, text before": (CheckpointTask.BASE, ICL | {"non_streaming_mode": True}),
}


@dataclass(slots=True)
class Checkpoint:
    prompter: Qwen3TTSPrompter
    runner: Qwen3TTSRunner


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def checkpoints(
    request: pytest.FixtureRequest, checkpoint: Callable[..., Path]
) -> Iterator[Callable[[CheckpointTask], Checkpoint]]:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    is_gpu, loaded = request.param == "cuda", dict[CheckpointTask, Checkpoint]()

    def load(task: CheckpointTask) -> Checkpoint:
        if task not in loaded:
            path = checkpoint("tiny", task)
            dtype = "bfloat16" if is_gpu else "float32"
            context = LoadContext(path, request.param, dtype, 4, is_deterministic=is_gpu)
            runner = load_runner(context, max_positions=128)
            loaded[task] = Checkpoint(Qwen3TTSPrompter(context), runner)
        return loaded[task]

    yield load
    for each in loaded.values():
        each.runner.close()


def prompts_of(
    checkpoints: Callable[[CheckpointTask], Checkpoint], layout: str
) -> tuple[Checkpoint, Build]:
    task, options = LAYOUTS[layout]
    loaded = checkpoints(task)
    return loaded, partial(build, loaded.prompter, **options)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_copied_changes_nothing(
    checkpoints: Callable[[CheckpointTask], Checkpoint], layout: str
) -> None:
    loaded, built = prompts_of(checkpoints, layout)
    assert_copies_exactly(loaded.runner, built(FIRST), built(OTHER))


@pytest.mark.parametrize("layout", ["custom", "speaker vector"])
def test_many_copy_at_once(
    checkpoints: Callable[[CheckpointTask], Checkpoint], layout: str
) -> None:
    loaded, built = prompts_of(checkpoints, layout)
    texts = ["One.", "Two, then.", "And three of them.", "Four makes the whole of it."]
    expected = [
        CopyingEngine.of(loaded.runner, copies=False).speak(built(text))[0] for text in texts
    ]
    engine = CopyingEngine.of(loaded.runner, copies=True)
    engine.speak(built(FIRST))
    assert engine.speak(*map(built, texts)) == expected
    assert engine.num_hits == len(texts) * built(FIRST).num_common_positions


def test_a_prompt_that_is_common_as_a_whole_is_not_read(
    checkpoints: Callable[[CheckpointTask], Checkpoint],
) -> None:
    loaded, built = prompts_of(checkpoints, "speaker vector")
    engine = CopyingEngine.of(loaded.runner, copies=True)
    engine.speak(built(FIRST))
    num_read = engine.core.scheduler.snapshot().prefill_positions
    engine.speak(built(OTHER))
    assert num_read == built(FIRST).num_positions
    assert engine.core.scheduler.snapshot().prefill_positions == num_read


def test_a_voice_of_the_same_name_has_positions_of_its_own(
    checkpoints: Callable[[CheckpointTask], Checkpoint],
) -> None:
    loaded = checkpoints(CheckpointTask.BASE)
    engine = CopyingEngine.of(loaded.runner, copies=True)
    for one, other in ((voice_of(1), voice_of(3)), (voice_of(2, 20), voice_of(4, 20))):
        assert one.name == other.name
        mode = {"x_vector_only_mode": one.ref_codes is None}
        prompts = [build(loaded.prompter, OTHER, ref_audio=each, **mode) for each in (one, other)]
        (expected,) = CopyingEngine.of(loaded.runner, copies=False).speak(prompts[1])
        num_hits = engine.num_hits
        engine.speak(prompts[0])
        assert engine.speak(prompts[1]) == [expected]
        assert engine.num_hits == num_hits


def test_what_is_evicted_is_computed_again(
    checkpoints: Callable[[CheckpointTask], Checkpoint],
) -> None:
    loaded, built = prompts_of(checkpoints, "custom")
    (expected,) = CopyingEngine.of(loaded.runner, copies=False).speak(built(OTHER))
    shape = loaded.runner.cache
    loaded.runner.cache = replace(shape, num_blocks=4)
    engine = CopyingEngine.of(loaded.runner, copies=True)
    loaded.runner.cache = shape
    assert engine.speak(built(FIRST), built(OTHER))[1] == expected
    filling = build(loaded.prompter, OTHER + FIRST, language="english")
    assert 3 * BLOCK <= filling.num_positions < 4 * BLOCK - NUM_FRAMES
    engine.speak(filling)
    num_hits = engine.num_hits
    assert engine.speak(built(OTHER)) == [expected]
    assert engine.num_hits == num_hits
    assert engine.speak(built(FIRST)) != [expected]
    assert engine.num_hits == num_hits + built(FIRST).num_common_positions


def test_a_request_that_is_cancelled_leaves_what_is_common(
    checkpoints: Callable[[CheckpointTask], Checkpoint],
) -> None:
    loaded, built = prompts_of(checkpoints, "custom")
    (expected,) = CopyingEngine.of(loaded.runner, copies=False).speak(built(OTHER))
    engine = CopyingEngine.of(loaded.runner, copies=True)
    engine.add("gone", built(FIRST))
    for _ in range(2):  # the plan after that which computes it caches it
        engine.step()
    assert engine.core.scheduler.abort("gone")
    assert engine.speak(built(OTHER)) == [expected]
    assert engine.num_hits == built(OTHER).num_common_positions
    assert engine.core.scheduler.snapshot().kv_cache_usage == 0


@pytest.mark.parametrize("layout", ["custom", "speaker vector", "recording"])
def test_in_a_batch_what_is_copied_changes_nothing_alone(
    checkpoints: Callable[[CheckpointTask], Checkpoint],
    checkpoint: Callable[..., Path],
    layout: str,
) -> None:
    loaded, built = prompts_of(checkpoints, layout)
    path = checkpoint("tiny", LAYOUTS[layout][0])
    context = LoadContext(path, loaded.runner.frame_store.device.type, "float32", 4)
    with closing(
        load_runner(context, is_batched=True, copies_common=True, max_positions=128)
    ) as runner:
        cold, warm = (CopyingEngine.of(runner, copies=True) for _ in range(2))
        expected = cold.speak(built(OTHER))
        (computed,) = cold.kept["0"]
        warm.speak(built(FIRST))
        assert warm.speak(built(OTHER)) == expected
        assert warm.num_hits == built(OTHER).num_common_positions
        assert torch.equal(warm.kept["1"][0], computed)
        texts = ["One.", "Two, then.", "And three of them."]
        alone = [cold.speak(built(text))[0] for text in texts]
        assert warm.speak(*map(built, texts)) == alone
