"""The cache is as large as asked for, and always holds the longest request."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from antiphon.models.qwen3_tts.config import Task, TransformerConfig
from antiphon.models.qwen3_tts.config_reader import load_config
from antiphon.models.qwen3_tts.kv_budget import BLOCK_POSITIONS, KVBudget, num_cache_blocks
from antiphon.models.qwen3_tts.runner import Qwen3TTSRunner
from antiphon.models.spec import LoadContext


@pytest.fixture(scope="module")
def path(checkpoint: Callable[..., Path]) -> Path:
    return checkpoint("tiny", Task.BASE)


@pytest.fixture(scope="module")
def config(path: Path) -> TransformerConfig:
    return load_config(path).talker.transformer


@given(
    num_slots=st.integers(1, 300),
    max_positions=st.integers(1, 4096),
    cache_bytes=st.none() | st.integers(0, 2**32),
)
def test_the_longest_request_fits_and_memory_is_kept_to(
    config: TransformerConfig, num_slots: int, max_positions: int, cache_bytes: int | None
) -> None:
    like = torch.empty(0, dtype=torch.bfloat16)
    num_blocks = num_cache_blocks(config, like, KVBudget(num_slots, max_positions, cache_bytes))
    at_least = -(-max_positions // BLOCK_POSITIONS)
    assert num_blocks >= at_least
    if num_blocks > at_least and cache_bytes is not None:
        width = config.num_layers * config.num_kv_heads * config.head_dim
        assert 2 * num_blocks * BLOCK_POSITIONS * width * like.element_size() <= cache_bytes


def test_a_runner_tells_its_memory(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        runner = Qwen3TTSRunner(LoadContext(path, "cpu", "float32", 3), max_positions=640)
    assert runner.cache.num_blocks == 40
    assert runner.cache.max_positions == 640
    assert [each.getMessage() for each in caplog.records if "(40 blocks" in each.getMessage()]
    assert len(runner.frame_store) == 3 + 1
