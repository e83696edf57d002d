"""The projected text embeddings take their own memory on a GPU, and little beside it."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from antiphon.families.qwen3_tts import talker
from antiphon.nn import kernels
from tests.nn.cuda.allocator import MIB, Allocator

VOCAB, TEXT_WIDTH, WIDTH = 60_000, 2048, 1024


def tensors(vocab: int, text_width: int, width: int, device: str) -> Mapping[str, Tensor]:
    torch.manual_seed(0)
    shapes = {
        "text_embedding.weight": (vocab, text_width),
        "text_projection.linear_fc1.weight": (text_width, text_width),
        "text_projection.linear_fc2.weight": (width, text_width),
    }
    return {
        ("talker.model." if "embedding" in name else "talker.") + name: torch.randn(
            shape, dtype=torch.bfloat16, device=device
        )
        for name, shape in shapes.items()
    }


@pytest.fixture(autouse=True)
def _on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "run_on", lambda _: True)


def test_the_table_is_the_only_large_tensor() -> None:
    weights = tensors(VOCAB, TEXT_WIDTH, WIDTH, "meta")
    with Allocator() as allocator:
        table = talker._folded_text_table(weights)
        assert isinstance(table, Tensor)
        assert allocator.peak - table.nbytes < 110 * MIB


def test_it_is_that_of_the_whole_embedding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talker, "_FOLD_ROWS", 16)
    weights = tensors(40, 24, 8, "cpu")
    embedding, first, second = weights.values()
    table = talker._folded_text_table(weights)
    assert isinstance(table, Tensor)
    parts = torch.split(embedding, 16)
    wanted = [torch.nn.functional.silu(part @ first.T) @ second.T for part in parts]
    torch.testing.assert_close(table, torch.cat(wanted))
