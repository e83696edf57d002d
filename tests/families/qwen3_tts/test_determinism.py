"""With `--deterministic` a GPU gives the same bits in every history; its codec does so always."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.families.qwen3_tts.config import CheckpointTask
from tests.families.qwen3_tts import codec_groupings, determinism

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
TINY = "--size tiny --device cpu --dtype float32 --streams 2 --stream-frames 4 --frames 8"


def test_a_checkpoint_that_is_kept_without_weights_is_compared(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="0"):
        determinism.main(["--random-dir", str(tmp_path), *TINY.split()])


@pytest.mark.gpu
@needs_gpu
def test_no_bit_depends_on_other_requests(checkpoint: Callable[..., Path]) -> None:
    path = checkpoint("tiny", CheckpointTask.CUSTOM_VOICE)
    context = LoadContext(path, "cuda", "bfloat16", 32, is_deterministic=True)
    found = determinism.compare(context, 32, 60, frames=10_000, limit_s=30)
    assert found["num_frames"] > 5_000
    assert found["num_different"] == 0, found["results"]


@pytest.mark.gpu
@needs_gpu
def test_a_stream_equals_itself_in_any_grouping(checkpoint: Callable[..., Path]) -> None:
    path = checkpoint("tiny", CheckpointTask.CUSTOM_VOICE)
    found = codec_groupings.compare(path, seconds=5, num_streams=32)
    assert found["num_frames"] > 10_000
    assert not found["different"]
