"""Kernels of full-size language models, for every card that is served: they compile and fit there.

Tensors have shapes and no numbers (PyTorch's meta device), and launches are compiled instead of
run; a limit of shared memory is the card's own.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.engine.model_runner.ar_model import Frames
from antiphon.families.kit.layouts import Layout
from antiphon.families.qwen3_tts.checkpoint import main_layout
from antiphon.families.qwen3_tts.config import Qwen3TTSConfig
from antiphon.families.qwen3_tts.language_model import FusedLanguageModel
from antiphon.families.qwen3_tts.talker import Talker, load_predictor
from antiphon.nn.attention import PagedCache, Tokens
from antiphon.nn.attention_backends import decode_attention, prefill_attention
from antiphon.nn.kernels.fused_linear import FusedLinear, scale
from antiphon.nn.layers import Linear
from tests.families.qwen3_tts.random_checkpoint import Size, write_all_but_weights
from tests.nn.kernels.compiler import CARDS, Card, compiling

META = torch.device("meta")
NUM_SLOTS, MAX_POSITIONS, BLOCK_POSITIONS = 256, 2048, 16
ROWS = (1, 4, 8, 32, 64, 256)
FEW_ROWS = (1, 64)
USUAL_CARDS = ("RTX 4090", "H200")
"""With the least and the most shared memory: for these everything else is compiled, too."""
pytestmark = pytest.mark.filterwarnings("ignore")  # Triton tells of changes to come


def meta(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device=META)


def weights_of(layout: Layout, dtype: torch.dtype) -> dict[str, Tensor]:
    return {name: meta(*shape, dtype=dtype) for name, shape in layout.items()}


def full_config(path: Path, size: Size) -> Qwen3TTSConfig:
    return write_all_but_weights(path, size=size, task="custom_voice", dtype="bfloat16")


def language_model(
    config: Qwen3TTSConfig, dtype: torch.dtype, *, is_invariant: bool = False
) -> FusedLanguageModel:
    weights = weights_of(main_layout(config), dtype)
    talker = Talker.of(weights, config.talker, MAX_POSITIONS, is_batch_invariant=is_invariant)
    predictor = load_predictor(
        weights, config.predictor, talker.frame_table, is_batch_invariant=is_invariant
    )
    return FusedLanguageModel(
        config, talker, predictor, num_slots=NUM_SLOTS, max_positions=MAX_POSITIONS
    )


def paged_cache(model: FusedLanguageModel) -> PagedCache:
    table = meta(NUM_SLOTS + 1, MAX_POSITIONS // BLOCK_POSITIONS, dtype=torch.int32)
    shape = model.talker.transformer.kv_shape
    return PagedCache.zeros(shape, NUM_SLOTS, BLOCK_POSITIONS, table, like=model.like)


def make_frames(model: FusedLanguageModel, num_rows: int, num_visible: int) -> None:
    inputs = model.embed(meta(num_rows, dtype=torch.int64))
    attend = decode_attention(paged_cache(model), (inputs.slots, inputs.positions), num_visible)
    places = inputs.slots[:, None], inputs.positions[:, None]
    hidden = model.forward(inputs.states, *places, [attend])[:, 0]
    frames: Frames = model.sample(hidden, inputs, model.sampling_shape(()))
    model.commit(frames, inputs, is_replay=False)


def read_prompt(model: FusedLanguageModel, num_positions: int) -> None:
    slots = meta(num_positions, dtype=torch.int64)
    attend = prefill_attention(
        paged_cache(model), Tokens(slots, slots, meta(num_positions // 32, 4, dtype=torch.int64))
    )
    states = meta(1, num_positions, model.width, dtype=model.like.dtype)
    model.forward(states, slots[None], slots[None], [attend])


@pytest.mark.slow  # kernels are compiled for half a minute
def test_products_compile_for_a_card_of_little_shared_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card = next(card for card in CARDS if card.capability == 89)
    compiler = compiling(monkeypatch, card)
    product, weight = FusedLinear(), meta(2 * 6144, 2048)
    for num_rows in (8, 64):
        states = scale(meta(num_rows, 2048), meta(2048))
        assert product.normed(states, weight, 1e-6, is_gated=True).shape == (num_rows, 6144)
        residual, inputs = meta(num_rows, 2560), meta(num_rows, 9728)
        product.added(residual, inputs, meta(2560, 9728), meta(2560))
    assert "wide_product" in compiler.names
    assert not compiler.too_large()


@pytest.mark.slow  # likewise
@pytest.mark.parametrize(
    "card", [each for each in CARDS if each.name in ("T4", *USUAL_CARDS)], ids=str
)
def test_products_with_int8_weights_compile(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, product, dtype = compiling(monkeypatch, card), FusedLinear(), card.dtype

    def linear(num_outputs: int, num_inputs: int) -> Linear:
        weight = meta(num_outputs, num_inputs, dtype=torch.int8)
        return Linear(weight, scales=meta(num_outputs, dtype=torch.float32))

    for num_rows in (1, 8, 64):
        states, norm = meta(num_rows, 1024, dtype=dtype), meta(1024, dtype=dtype)
        inputs = meta(num_rows, 3072, dtype=dtype)
        product.normed(scale(states, norm), linear(2 * 3072, 1024), 1e-6, is_gated=True)
        product.added(states, inputs, linear(1024, 3072), norm)
    assert {"_thin_product", "wide_product"} <= compiler.names
    assert "held_product" in compiler.names or card.name != "H200"
    assert not compiler.too_large()


@pytest.mark.slow  # some hundred kernels are compiled
@pytest.mark.parametrize(
    ("card", "size"),
    [
        *((card, "1.7b") for card in CARDS),
        *((card, "0.6b") for card in CARDS if card.name in USUAL_CARDS),
    ],
    ids=str,
)
def test_frames_compile_at_full_size(
    card: Card, size: Size, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, compiler = full_config(tmp_path, size), compiling(monkeypatch, card)
    model = language_model(config, card.dtype)
    for num_rows in ROWS if card.name in USUAL_CARDS else FEW_ROWS:
        make_frames(model, num_rows, 256)
    make_frames(model, 8, 1024)
    read_prompt(model, 512)
    expected = {"_thin_product", "wide_product", "_decode", "decode_short", "_sample", "_draw"}
    expected |= {"_join_splits", "_noise", "_embed", "_commit", "_add_rms_norm", "_silu_product"}
    assert expected <= compiler.names
    assert not compiler.too_large()


@pytest.mark.slow  # likewise
@pytest.mark.parametrize("card", [each for each in CARDS if each.name in USUAL_CARDS], ids=str)
def test_reproducible_frames_compile_at_full_size(
    card: Card, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, compiler = full_config(tmp_path, "1.7b"), compiling(monkeypatch, card)
    model = language_model(config, torch.bfloat16, is_invariant=True)
    for num_rows in (1, 64):
        make_frames(model, num_rows, 256)
    assert "_thin_product" not in compiler.names, "its sums are not those of the other"
    assert not compiler.too_large()
