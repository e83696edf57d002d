"""On a GPU: kernels make the tokens that PyTorch lines make, and audio is that of the CPU."""

import operator
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import Samples
from antiphon.engine.plan import CodecChunk
from antiphon.families.cosyvoice3 import dit, flow
from antiphon.families.cosyvoice3.checkpoint import flow_part
from antiphon.families.cosyvoice3.config import load_config
from antiphon.families.cosyvoice3.decoder import load_decoder
from antiphon.families.cosyvoice3.flow import MelFlow, Reference
from antiphon.families.cosyvoice3.language_model import load_runner
from antiphon.families.cosyvoice3.stream_conv import StreamConv, StreamState
from antiphon.families.cosyvoice3.vocoder import SnakeBlock, source_noise
from antiphon.families.cosyvoice3.vocoder_fused import FusedSnakeBlock, SplitStreamConv
from antiphon.families.cosyvoice3.voices import reference_arrays
from antiphon.nn.kernels import chunk_attention
from antiphon.nn.layers import Weights
from antiphon.nn.precision import exact_float32
from tests.engine.drive import tokens_of
from tests.families.cosyvoice3.oracle.cases import reference, speech_tokens
from tests.families.cosyvoice3.speech import (
    AHEAD,
    GREEDY,
    GROUP,
    TOKENS,
    chunks_of,
    mel_of,
    prompt_of,
    voice,
)
from tests.kernels import why_not_here, with_kernels

pytestmark = pytest.mark.gpu


@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "they run here")
def test_tokens_are_those_of_pytorch_lines(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = LoadContext(base, "cpu", "float32", 2)
    prompts = {0: prompt_of((5, 6, 7), seed=3, min_frames=8), 1: prompt_of((8, 9), sampling=GREEDY)}
    with closing(load_runner(context, max_positions=256, is_batched=True)) as runner:
        wanted = tokens_of(runner, prompts, 8)
    context = with_kernels(context, monkeypatch)
    with closing(load_runner(context, max_positions=256, is_batched=True)) as runner:
        assert tokens_of(runner, prompts, 8) == wanted


@torch.inference_mode()
@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "they run here")
@pytest.mark.parametrize("growth", [1, 2**18], ids=["usual", "large"])
def test_mel_frames_of_kernels_are_those_of_pytorch_lines(
    base: Path, monkeypatch: pytest.MonkeyPatch, growth: int
) -> None:
    """Each product rounds to ten bits of fraction, in ten steps one after another.

    However large what is added to the states is before gates make it small.
    """
    config, device = load_config(base).flow, "cuda" if torch.cuda.is_available() else "cpu"
    with flow_part(base, config).open(like=torch.empty(0, device=device)) as read:
        weights = grown(read, growth)
    tokens, mel, speaker = (torch.from_numpy(each).to(device) for each in voice(2).values())
    num_tokens = 80 if device == "cuda" else 30
    speech = torch.from_numpy(TOKENS[:num_tokens]).to(device)
    given = Reference(tokens, mel, speaker)
    if device == "cpu":  # of the interpreter, one step alone is asked for
        monkeypatch.setattr(chunk_attention, "_MANY_PROGRAMS", 0)
        for module in (dit, flow):
            monkeypatch.setattr(module, "NUM_STEPS", 1)
    made = [
        mel_of(MelFlow.of(weights, config, is_fused=each), speech, given, AHEAD + GROUP - 3)
        for each in (False, True)
    ]
    error = (made[1] - made[0]).square().mean() / made[0].square().mean()
    assert 10 * float(error.log10()) < -55


@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "they run here")
def test_noise_of_the_source_is_that_of_pytorch_lines(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, first_frames = load_config(base).vocoder, torch.tensor([0, 7])
    wanted = source_noise(first_frames, 3, config)
    context = with_kernels(LoadContext(base, "cpu"), monkeypatch)
    found = source_noise(first_frames.to(context.device), 3, config)
    assert torch.equal(found.cpu(), wanted)


def grown(weights: Weights, growth: int) -> Weights:
    """Return weights of the same flow, whose blocks add more and gate it down as much."""
    made = dict(weights)
    for name, each in weights.items():
        if ".attn.to_out.0." in name or ".ff.ff.2." in name:
            made[name] = each * growth
        elif ".attn_norm.linear." in name:
            shares = torch.tensor([1, 1, 1 / growth, 1, 1, 1 / growth], device=each.device)
            shares = shares.repeat_interleave(len(each) // 6)
            made[name] = each * shares.view(-1, *[1] * (each.ndim - 1))
    return made


@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "they run here")
@pytest.mark.parametrize("splits_products", [False, True])
def test_blocks_of_the_vocoder_are_those_of_pytorch_lines(*, splits_products: bool) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    draws = torch.Generator().manual_seed(1)
    weights = {}
    for index in range(2):
        for part in (1, 2):
            weights[f"b.convs{part}.{index}.weight"] = torch.randn(32, 32, 3, generator=draws) / 12
            weights[f"b.convs{part}.{index}.bias"] = torch.randn(32, generator=draws)
            weights[f"b.activations{part}.{index}.alpha"] = torch.rand(32, generator=draws) + 0.5
    block = SnakeBlock.of({name: each.to(device) for name, each in weights.items()}, "b", (1, 3))
    columns = torch.randn(2, 32, 30, generator=draws).to(device)
    pieces = columns.tensor_split((4, 20), dim=2)
    made = []
    for each_block in (block, FusedSnakeBlock.of(block.pairs, splits_products=splits_products)):
        state = StreamState()
        with exact_float32():
            made.append(torch.cat([each_block(each, state) for each in pieces], dim=2))
    torch.testing.assert_close(*made, atol=1e-5, rtol=1e-5)


@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "they run here")
def test_a_convolution_by_parts_is_that_of_pytorch_lines() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    draws = torch.Generator().manual_seed(2)
    weights = {
        "wide.weight": torch.randn(32, 64, 5, generator=draws) / 18,
        "wide.bias": torch.randn(32, generator=draws),
        "narrow.weight": torch.randn(32, 18, 5, generator=draws),
    }
    weights = {name: each.to(device) for name, each in weights.items()}
    narrow, wide = (StreamConv.of(weights, name) for name in ("narrow", "wide"))
    assert SplitStreamConv.like(narrow) is narrow
    columns, made = torch.randn(2, 64, 30, generator=draws).to(device), []
    for conv in (wide, SplitStreamConv.like(wide)):
        state = StreamState()
        with exact_float32():
            parts = [conv(each, state) for each in columns.tensor_split((4, 20), dim=2)]
        made.append(torch.cat(parts, dim=2))
    torch.testing.assert_close(*made, atol=1e-5, rtol=1e-5)


def audio_on(device: str, path: Path) -> Samples:
    decoder = load_decoder(LoadContext(path, device=device))
    rows, tokens = decoder.open(1), speech_tokens()
    store = torch.from_numpy(tokens)[None, :, None].to(device)
    decoder.reset(rows, 0, reference_arrays(*reference()))
    chunks = [CodecChunk(0, 0, 25), CodecChunk(0, 25, 25, len(tokens))]
    parts = [decoder.launch([each], store, rows).result()[0] for each in chunks]
    return np.concatenate(parts)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_audio_is_that_of_the_cpu_and_repeats(base: Path) -> None:
    found, again, wanted = (audio_on(device, base) for device in ("cuda", "cuda", "cpu"))
    np.testing.assert_array_equal(found, again)
    # Phases of the source move with rounding; how loud it is does not.
    assert len(found) == len(wanted)
    np.testing.assert_allclose(found.std(), wanted.std(), rtol=0.05)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_audio_in_company_is_that_alone(base: Path) -> None:
    decoder = load_decoder(LoadContext(base, device="cuda"))
    lengths, voices = (81, 110, 60), [voice(number, seed=number) for number in (12, 0, 60)]
    store = torch.from_numpy(np.resize(TOKENS, 128))[None, :, None].repeat(4, 1, 1).cuda()
    alone = []
    for length, each in zip(lengths, voices, strict=True):
        rows = decoder.open(1)
        decoder.reset(rows, 0, each)
        chunks = chunks_of(length, partial(operator.lt, length - GROUP - AHEAD))
        parts = [decoder.launch([chunk], store, rows).result()[0] for chunk in chunks]
        alone.append(np.concatenate(parts))
    rows = decoder.open(4)
    for slot, each in enumerate(voices, start=1):
        decoder.reset(rows, slot, each)
    together: dict[int, list[Samples]] = {1: [], 2: [], 3: []}
    for start in range(0, max(lengths), GROUP):
        chunks = [
            CodecChunk(slot, start, GROUP, length if start + GROUP + AHEAD > length else None)
            for slot, length in enumerate(lengths, start=1)
            if start < length
        ]
        for slot, samples in decoder.launch(chunks, store, rows).result().items():
            together[slot].append(samples)
    for slot, wanted in enumerate(alone, start=1):
        found = np.concatenate(together[slot])
        assert found.shape == wanted.shape
        # Keys and values have 16 bits, and phases of the source move with rounding.
        assert np.corrcoef(found, wanted)[0, 1] > 0.98
