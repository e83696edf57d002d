"""What a token must multiply: every matrix once, but the embedding."""

import json
from pathlib import Path

import pytest

from antiphon.families.causal_lm.checkpoint import frame_products, layout_of
from antiphon.families.causal_lm.config import load_config
from antiphon.families.causal_lm.sizes import SIZES, TASKS, config_of


def written(path: Path, size: str, layout: str) -> Path:
    (path / "config.json").write_text(json.dumps(config_of(size, layout)), encoding="utf-8")
    return path


@pytest.mark.parametrize("layout", TASKS)
@pytest.mark.parametrize("size", SIZES)
def test_a_token_reads_every_matrix_once(size: str, layout: str, tmp_path: Path) -> None:
    path = written(tmp_path, size, layout)
    config = load_config(path)
    matrices = [each for each in layout_of(config).values() if len(each) == 2]
    numbers = sum(rows * columns for rows, columns in matrices)
    if not config.is_tied:
        numbers -= config.vocab_size * config.transformer.hidden_size
    products = frame_products(path)
    assert sum(each.num_outputs * each.num_inputs for each in products) == numbers
    assert len({each.weight for each in products}) == len(products)


def test_a_thinker_of_7b_reads_fourteen_gigabytes(tmp_path: Path) -> None:
    products = frame_products(written(tmp_path, "7b", "thinker"))
    num_bytes = sum(2 * each.num_outputs * each.num_inputs for each in products)
    assert round(num_bytes / 1e9, 2) == 14.14
