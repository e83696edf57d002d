"""Programs of others are measured on the weights that ours draw."""

from argparse import Namespace
from pathlib import Path

from antiphon.families.kit.random_checkpoint import has_drawn_weights
from tests.bench.peer import files_of, weights_of


def test_programs_that_cannot_draw_weights_are_given_files(tmp_path: Path) -> None:
    given = Namespace(random_dir=tmp_path, size="tiny")
    assert has_drawn_weights(weights_of(given, "voxcpm2", "custom_voice"))
    made = files_of(given, "voxcpm2", "custom_voice")
    assert not has_drawn_weights(made)
    weights = (made / "model.safetensors").stat().st_mtime_ns
    assert files_of(given, "voxcpm2", "custom_voice") == made
    assert (made / "model.safetensors").stat().st_mtime_ns == weights, "it was made once"
