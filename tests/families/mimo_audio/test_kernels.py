"""Steps by kernels: they compute what PyTorch lines do, and compile for a GPU that is not there."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.contracts.family import LoadContext
from antiphon.engine.plan import Start
from antiphon.families.kit.random_checkpoint import configs_of, write_configs
from antiphon.families.mimo_audio.codec_fused import FusedStack
from antiphon.families.mimo_audio.codec_layers import NetLayer
from antiphon.families.mimo_audio.codec_stage import StageState, load_codec
from antiphon.families.mimo_audio.config import NetConfig
from antiphon.families.mimo_audio.language_model import load_runner
from antiphon.families.mimo_audio.sizes import CONFIGS
from antiphon.nn.codec_layers.transformer import LayerNorm
from antiphon.nn.layers import Linear
from tests.engine.drive import Drive, generate
from tests.families.mimo_audio.random_checkpoint import make_checkpoint, write_weights
from tests.families.mimo_audio.speaking import DRAWN, GREEDY, prompt_of
from tests.families.mimo_audio.test_codec_stage import decode_together, streams_of
from tests.families.whole_checkpoints import Whole
from tests.kernels import why_not_here, with_kernels
from tests.nn.kernels.compiler import CARDS, Card, Compiler, compiling
from tests.nn.kernels.test_compilation import compiler

__all__ = ["compiler"]


@pytest.mark.gpu
@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "they run here")
def test_frames_are_those_of_pytorch_lines(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = LoadContext(checkpoint, "cpu", "float32", 3)
    prompts = {
        0: prompt_of(checkpoint, "Hello", GREEDY),
        1: prompt_of(checkpoint, "Who is there?", DRAWN, seed=4),
    }
    wanted = generate(load_runner(context, is_batched=True), prompts, 3)
    context = with_kernels(context, monkeypatch)
    made = generate(load_runner(context, is_batched=True), prompts, 3)
    for slot, each in wanted.items():
        assert made[slot].codes == each.codes


@pytest.mark.gpu
@pytest.mark.slow  # every pass of the decoder, kernel by kernel
@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "they run here")
def test_audio_is_that_of_pytorch_lines(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With text in between, in company, and from rings in half precision in both."""
    context = LoadContext(checkpoint, "cpu", max_slots=3)
    codec = load_codec(context)
    streams = streams_of((12, 40, 4))
    wanted = decode_together(codec, streams, halved(codec.open(4)))
    context = with_kernels(context, monkeypatch)
    codec = load_codec(context, is_batched=True)
    assert codec._decoder.decoder.fused is not None
    together = decode_together(codec, streams, codec.open(4))
    for one, other in zip(wanted, together, strict=True):
        # A rounding may turn a key's last bit, or a factor's, which is a thousandth of it.
        np.testing.assert_allclose(other, one, atol=1e-3)


def halved(state: StageState) -> StageState:
    """Return a state whose keys and values have half precision, as on a GPU."""
    codec = state.codec
    decoder, vocoder = ((each[0].half(), *each[1:]) for each in (codec.decoder, codec.vocoder))
    return replace(state, codec=replace(codec, decoder=decoder, vocoder=vocoder))


@pytest.mark.slow  # it compiles
@pytest.mark.filterwarnings("ignore")  # Triton tells of changes to come
@pytest.mark.parametrize("card", [each for each in CARDS if each.name == "H200"], ids=str)
def test_layers_of_full_size_compile(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = compiling(monkeypatch, card)
    for each, num_positions in NETS:
        assert each.left is not None
        assert each.right is not None
        window, factors = (each.left, each.right), torch.float32 if each.right else torch.float16
        stack = FusedStack.of([layer_of(each)] * 2, meta(each.head_dim // 2), window, factors)
        num_kept, num_waiting = each.left + each.right + num_positions, each.right + num_positions
        kept = (
            meta(2, 9, num_kept, 2, each.num_heads, each.head_dim, dtype=torch.float16),
            meta(2, 9, num_waiting if each.right else 0, 2, each.hidden_size),
        )
        for num_rows in (1, 8):
            states = meta(num_rows, num_positions, each.hidden_size)
            made = stack(states, meta(num_rows, 3, dtype=torch.int64), kept)
            assert made.shape == states.shape
    assert {"_attend_delayed", "_causal_conv", "_add_modulated_norm"} <= compiler.names
    assert not compiler.too_large()


def net(width: int, inner: int, num_heads: int, left: int, right: int) -> NetConfig:
    return NetConfig(
        hidden_size=width,
        intermediate_size=inner,
        num_layers=2,
        num_heads=num_heads,
        rope_theta=10000.0,
        left=left,
        right=right,
    )


NETS = (
    (net(1280, 5120, 20, 499, 0), 32),
    (net(256, 1024, 16, 40, 10), 64),
)
"""Layers of the published decoder and vocoder, and positions of a pass."""


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device="meta")


def layer_of(config: NetConfig) -> NetLayer:
    def linear(num_outputs: int, num_inputs: int) -> Linear:
        return Linear(meta(num_outputs, num_inputs), meta(num_outputs))

    width, inner = config.hidden_size, config.intermediate_size
    norm = LayerNorm(meta(width), meta(width), 1e-5)
    linears = (linear(3 * width, width), linear(width, width))
    wide, narrow = linear(inner, width), linear(width, inner)
    return NetLayer(config, norm, *linears, norm, wide, narrow)


@pytest.mark.slow  # it compiles
@pytest.mark.filterwarnings("ignore")  # Triton tells of changes to come
def test_a_step_of_full_size_heads_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    full, tiny = (configs_of(CONFIGS, size)["config.json"] for size in ("7b", "tiny"))
    layers = {"num_hidden_layers": 1, "local_layers": 1, "input_local_layers": 1}
    share = {"num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 1024}
    small = full | layers | share | {"intermediate_size": 1024, "vocab_size": 1024}
    codes = {key: tiny[key] for key in ("speech_vocab_size", "speech_zeroemb_idx")}
    make_checkpoint(tmp_path)
    write_configs(tmp_path, {"config.json": small | codes})
    write_weights(tmp_path, Whole())
    prompt = prompt_of(tmp_path, "Hello " * 6, DRAWN)
    context = LoadContext(tmp_path, "cpu", "bfloat16", 4)
    compiled: Compiler = request.getfixturevalue("compiler")  # not before: it fakes torch.empty
    drive = Drive(load_runner(context, is_batched=True))
    drive.step((0, 1), starts=[Start(0, prompt), Start(1, prompt)])
    drive.step((0, 1))
    assert {"_attend_tile", "_attend_whole", "_decode", "_noise", "_draw"} <= compiled.names
    assert not compiled.too_large()
