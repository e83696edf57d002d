"""What streams keep is reckoned as it is allocated, and left to them by keys and values."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree, rmtree

import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.families.mimo_audio import language_model
from antiphon.families.mimo_audio.codec_stage import load_codec
from antiphon.families.mimo_audio.config import (
    TOKENIZER_NAME,
    AudioTokenizerConfig,
    load_config,
    load_tokenizer_config,
    tokenizer_path,
)
from antiphon.families.mimo_audio.language_model import reserved_bytes, stream_bytes
from antiphon.families.mimo_audio.sizes import make_checkpoint
from antiphon.nn import kernels

NUM_SLOTS = 2


@pytest.fixture
def published(tmp_path: Path) -> AudioTokenizerConfig:
    make_checkpoint(tmp_path, size="7b")
    return load_tokenizer_config(tmp_path / TOKENIZER_NAME, load_config(tmp_path))


@pytest.mark.parametrize("is_exact", [True, False])
@torch.inference_mode()
def test_it_is_what_is_allocated(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, *, is_exact: bool
) -> None:
    context = LoadContext(checkpoint, device="cpu", dtype="float32" if is_exact else "auto")
    if not is_exact:
        if not find_spec("triton"):
            pytest.skip("Triton is not installed")
        monkeypatch.setattr(kernels, "run_on", lambda tensor: True)
    state = load_codec(context).open(NUM_SLOTS).codec  # and one for padding
    num_bytes = sum(each.nbytes for each in (*state.decoder, *state.vocoder))
    audio = load_tokenizer_config(tokenizer_path(checkpoint), load_config(checkpoint))
    assert num_bytes == (NUM_SLOTS + 1) * stream_bytes(audio, is_exact=is_exact)


def test_the_published_one_takes_what_its_page_tells(published: AudioTokenizerConfig) -> None:
    sizes_mb = [stream_bytes(published, is_exact=each) / 1e6 for each in (False, True)]
    assert sizes_mb == pytest.approx([92, 181], rel=0.02)


def test_keys_and_values_leave_it_alone(
    checkpoint: Path,
    published: AudioTokenizerConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = LoadContext(checkpoint, dtype="float32", max_slots=64, memory_utilization=0.9)
    config = load_config(checkpoint)
    monkeypatch.setattr(language_model, "load_tokenizer_config", lambda *_: published)
    total = 80 * 2**30
    exact, usual = (
        language_model._budget(replace(context, dtype=dtype), config)
        .plan(total, total)
        .num_left(64)
        for dtype in ("float32", "auto")
    )
    assert usual - exact == pytest.approx(65 * 89e6, rel=0.03)
    text_alone = copytree(checkpoint, tmp_path / "apart" / "text")
    rmtree(text_alone / TOKENIZER_NAME)
    alone = language_model._budget(replace(context, path=text_alone), config)
    assert alone.plan(total, total).num_left(64) - exact == reserved_bytes(
        published, 64, is_exact=True
    )
