"""Layers and attention against plain arithmetic in f64, and slots without knowledge of others."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from antiphon.nn.attention import FrameCache, KVShape, PagedCache, Tokens, cut_tiles
from antiphon.nn.attention_backends import decode_attention, frame_attention, prefill_attention
from antiphon.nn.cpu.cache_spans import CacheSpan
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.layers import Linear, RMSNorm, SwiGLU
from antiphon.nn.transformer import Transformer

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INNER, LAYERS = 24, 4, 2, 8, 40, 2
NUM_SLOTS, MAX_POSITIONS, BLOCK_POSITIONS = 4, 40, 4
MAX_BLOCKS = MAX_POSITIONS // BLOCK_POSITIONS

Array = NDArray[np.float64]


def made_weights() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator) / math.sqrt(shape[-1])

    weights = {"model.norm.weight": 1 + 0.1 * random(HIDDEN)}
    for index in range(LAYERS):
        layer = {
            "self_attn.q_proj": random(HEADS * HEAD_DIM, HIDDEN),
            "self_attn.k_proj": random(KV_HEADS * HEAD_DIM, HIDDEN),
            "self_attn.v_proj": random(KV_HEADS * HEAD_DIM, HIDDEN),
            "self_attn.o_proj": random(HIDDEN, HEADS * HEAD_DIM),
            "self_attn.q_norm": 1 + random(HEAD_DIM),
            "self_attn.k_norm": 1 + random(HEAD_DIM),
            "input_layernorm": 1 + random(HIDDEN),
            "post_attention_layernorm": 1 + random(HIDDEN),
            "mlp.gate_proj": random(INNER, HIDDEN),
            "mlp.up_proj": random(INNER, HIDDEN),
            "mlp.down_proj": random(HIDDEN, INNER),
        }
        weights |= {f"model.layers.{index}.{name}.weight": each for name, each in layer.items()}
    return weights


WEIGHTS = made_weights()


CONFIG = TransformerConfig(
    hidden_size=HIDDEN,
    intermediate_size=INNER,
    num_layers=LAYERS,
    num_heads=HEADS,
    num_kv_heads=KV_HEADS,
    head_dim=HEAD_DIM,
    norm_eps=1e-6,
    rope_theta=10_000.0,
    max_positions=MAX_POSITIONS,
)


def transformer() -> Transformer:
    return Transformer.of(WEIGHTS, "model", CONFIG, MAX_POSITIONS)


def new_cache() -> PagedCache:
    """Return a cache whose slots hold blocks that lie anywhere, and whose last slot holds none."""
    num_blocks = NUM_SLOTS * MAX_BLOCKS
    shape = KVShape(LAYERS, KV_HEADS, HEAD_DIM)
    table = torch.full((NUM_SLOTS + 1, MAX_BLOCKS), num_blocks, dtype=torch.int32)
    cache = PagedCache.zeros(shape, num_blocks, BLOCK_POSITIONS, table, like=torch.zeros(()))
    blocks = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(0))
    cache.table[:-1] = blocks.view(NUM_SLOTS, MAX_BLOCKS)
    return cache


def plain_norm(x: Array, name: str) -> Array:
    scaled = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    return np.asarray(scaled * WEIGHTS[f"{name}.weight"].double().numpy())


def plain_linear(x: Array, name: str) -> Array:
    return np.asarray(x @ WEIGHTS[f"{name}.weight"].double().numpy().T)


def plain_rotate(head: Array, position: int) -> Array:
    half = HEAD_DIM // 2
    turned = np.empty_like(head)
    for pair in range(half):
        angle = position * 10_000.0 ** (-pair / half)
        first, second = head[pair], head[pair + half]
        turned[pair] = first * math.cos(angle) - second * math.sin(angle)
        turned[pair + half] = second * math.cos(angle) + first * math.sin(angle)
    return turned


def plain_attention(x: Array, name: str) -> Array:
    """Attend causally, one head and one position after the other; ``x`` is ``[n, hidden]``."""
    queries, keys, values = (
        plain_linear(x, f"{name}.{part}_proj").reshape(len(x), -1, HEAD_DIM) for part in "qkv"
    )
    queries, keys = plain_norm(queries, f"{name}.q_norm"), plain_norm(keys, f"{name}.k_norm")
    attended = np.zeros_like(queries)
    for position in range(len(x)):
        for head in range(HEADS):
            shared = head // (HEADS // KV_HEADS)
            query = plain_rotate(queries[position, head], position)
            scores = np.array(
                [query @ plain_rotate(keys[at, shared], at) for at in range(position + 1)]
            )
            weights = np.exp(scores / math.sqrt(HEAD_DIM))
            attended[position, head] = weights / weights.sum() @ values[: position + 1, shared]
    return plain_linear(attended.reshape(len(x), -1), f"{name}.o_proj")


def plain_transformer(x: Array) -> Array:
    for index in range(LAYERS):
        name = f"model.layers.{index}"
        x = x + plain_attention(plain_norm(x, f"{name}.input_layernorm"), f"{name}.self_attn")
        inner = plain_norm(x, f"{name}.post_attention_layernorm")
        gate, up = (plain_linear(inner, f"{name}.mlp.{part}_proj") for part in ("gate", "up"))
        x = x + plain_linear(gate / (1 + np.exp(-gate)) * up, f"{name}.mlp.down_proj")
    return plain_norm(x, "model.norm")


def inputs(num_positions: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_positions, HIDDEN, generator=generator)


def prefill(
    model: Transformer, cache: PagedCache, slot: int, states: Tensor, start: int = 0
) -> Tensor:
    return prefill_pieces(model, cache, [(slot, start, len(states))], states)


def prefill_pieces(
    model: Transformer, cache: PagedCache, pieces: list[tuple[int, int, int]], states: Tensor
) -> Tensor:
    slots = [slot for slot, _, count in pieces for _ in range(count)]
    positions = torch.tensor([start + at for _, start, count in pieces for at in range(count)])
    tokens = Tokens(torch.tensor(slots), positions, torch.from_numpy(cut_tiles(pieces)))
    attend = prefill_attention(cache, tokens)
    return model(states[None], model.rope.at(positions[None]), attend)[0]


def decode(
    model: Transformer, cache: PagedCache, slots: list[int], positions: list[int], states: Tensor
) -> Tensor:
    at = torch.tensor(positions)
    attend = decode_attention(cache, (torch.tensor(slots), at), max(positions) + 1)
    return model(states[:, None], model.rope.at(at[:, None]), attend)[:, 0]


def test_prefill_is_the_plain_transformer() -> None:
    states = inputs(11, seed=1)
    ours = prefill(transformer(), new_cache(), 2, states)
    np.testing.assert_allclose(ours.numpy(), plain_transformer(states.double().numpy()), atol=2e-5)


def test_slots_of_any_length_decode_together_what_they_would_alone() -> None:
    model, cache = transformer(), new_cache()
    lengths = {3: 7, 0: 2, 1: 12}
    states = {slot: inputs(length + 3, seed=slot) for slot, length in lengths.items()}
    for slot, length in lengths.items():
        prefill(model, cache, slot, states[slot][:length])
    for step in range(3):
        slots = list(lengths) if step != 1 else [1, 3]  # one sits a step out
        done = {slot: step if slot != 0 else min(step, 1) for slot in slots}
        positions = [lengths[slot] + done[slot] for slot in slots]
        rows = torch.stack([states[slot][at] for slot, at in zip(slots, positions, strict=True)])
        ours = decode(model, cache, slots, positions, rows)
        for row, slot, at in zip(ours, slots, positions, strict=True):
            plain = plain_transformer(states[slot][: at + 1].double().numpy())[-1]
            np.testing.assert_allclose(row.numpy(), plain, atol=2e-5)


def test_what_a_slot_held_before_does_not_matter() -> None:
    model, cache, fresh = transformer(), new_cache(), new_cache()
    prefill(model, cache, 1, inputs(15, seed=5) * 100)
    results = []
    for each in (cache, fresh):
        prefill(model, each, 1, inputs(4, seed=6))
        prefill(model, each, 2, inputs(9, seed=7))
        rows = torch.cat((inputs(1, seed=8), inputs(1, seed=9)))
        results.append(decode(model, each, [1, 2], [4, 9], rows))
    assert torch.equal(*results)


@given(st.lists(st.integers(1, 38), max_size=3), st.lists(st.integers(1, 20), max_size=3))
@settings(deadline=None, max_examples=25)
def test_a_prompt_may_be_read_in_any_pieces_beside_any_others(
    cuts: list[int], other_cuts: list[int]
) -> None:
    model, cache = transformer(), new_cache()
    ends = {2: sorted({*cuts, 39}), 0: sorted({*other_cuts, 21})}
    states = {slot: inputs(each[-1], seed=slot) for slot, each in ends.items()}
    parts: dict[int, list[Tensor]] = {slot: [] for slot in ends}
    for step in range(4):
        pieces = []
        for slot, each in ends.items():
            if step < len(each):
                start = each[step - 1] if step else 0
                pieces.append((slot, start, each[step] - start))
        if pieces:
            rows = [states[slot][start : start + count] for slot, start, count in pieces]
            results = prefill_pieces(model, cache, pieces, torch.cat(rows))
            counts = [count for *_, count in pieces]
            for (slot, *_), part in zip(pieces, torch.split(results, counts), strict=True):
                parts[slot].append(part)
    for slot, read in states.items():
        plain = plain_transformer(read.double().numpy())
        np.testing.assert_allclose(torch.cat(parts[slot]).numpy(), plain, atol=5e-5)


def test_slots_share_the_blocks_of_an_equal_beginning() -> None:
    model, cache, alone = transformer(), new_cache(), new_cache()
    states = inputs(14, seed=1)
    prefill(model, cache, 1, states[:9])
    cache.table[3, :2] = cache.table[1, :2]
    for each, start in ((cache, 8), (alone, 0)):
        prefill(model, each, 3, states[start:13], start)
    shared, own = (decode(model, each, [3], [13], states[13:]) for each in (cache, alone))
    torch.testing.assert_close(shared, own, atol=2e-5, rtol=0)


def test_what_is_not_a_number_stays_with_its_own_positions() -> None:
    model, cache = transformer(), new_cache()
    prefill(model, cache, 0, torch.full((9, HIDDEN), math.nan))
    prefill(model, cache, NUM_SLOTS, torch.full((9, HIDDEN), math.nan))  # into the spare block
    cache.table[0, 1:] = cache.tensor.shape[2] - 1
    prefill(model, cache, 0, inputs(3, seed=1))
    prefill(model, cache, 1, inputs(8, seed=2))
    rows = torch.cat((inputs(1, seed=3), inputs(1, seed=4)))
    assert decode(model, cache, [0, 1], [3, 8], rows).isfinite().all()


def test_blocks_in_order_are_read_in_place_and_others_give_the_same_numbers() -> None:
    model, cache, ordered = transformer(), new_cache(), new_cache()
    ordered.table[:-1] = torch.arange(NUM_SLOTS * MAX_BLOCKS).view(NUM_SLOTS, MAX_BLOCKS)
    results = []
    for each in (cache, ordered):
        prefill(model, each, 1, inputs(15, seed=5))
        results.append(decode(model, each, [1], [15], inputs(1, seed=6)))
    assert torch.equal(*results)
    keys, values = CacheSpan.of(ordered, 1, 16).read(ordered, 1)
    own = ordered.tensor[1, :, MAX_BLOCKS : MAX_BLOCKS + 4].flatten(1, 2)
    assert [keys.data_ptr(), values.data_ptr()] == [each.data_ptr() for each in own]
    assert keys.shape == values.shape == (1, 16, KV_HEADS, HEAD_DIM)


def test_a_step_reads_its_own_positions_only() -> None:
    model, cache = transformer(), new_cache()
    prefill(model, cache, 1, inputs(6, seed=2))
    before = decode(model, cache, [1], [6], inputs(1, seed=3))
    visible = torch.zeros(cache.tensor.shape[2:4], dtype=torch.bool)
    visible[cache.table[1, 0].long()] = True
    visible[cache.table[1, 1].long(), :3] = True
    cache.tensor[:, :, ~visible] = math.nan
    assert torch.equal(decode(model, cache, [1], [6], inputs(1, seed=3)), before)


def test_a_frame_run_is_the_plain_transformer_for_every_row() -> None:
    model = transformer()
    states = torch.stack([inputs(8, seed=seed) for seed in (1, 2, 3)])
    cache = FrameCache.zeros(model.kv_shape, 5, MAX_POSITIONS, like=torch.zeros(()))
    cache.kept.fill_(7.0)  # of an earlier frame
    results = []
    for start, end in [(0, 2), *((at, at + 1) for at in range(2, 8))]:
        attend = frame_attention(cache, 3, start)
        results.append(model(states[:, start:end], model.rope.between(start, end), attend))
    for ours, row in zip(torch.cat(results, dim=1), states, strict=True):
        plain = plain_transformer(row.double().numpy())
        np.testing.assert_allclose(ours.numpy(), plain, atol=2e-5)


def test_the_norm_computes_in_f32_and_answers_in_the_type_of_the_states() -> None:
    norm = RMSNorm(torch.ones(64, dtype=torch.bfloat16), 1e-6)
    states = torch.full((2, 64), 300.0, dtype=torch.bfloat16)
    normed = norm(states * torch.tensor([[1.0], [-1e-3]], dtype=torch.bfloat16))
    assert normed.dtype is torch.bfloat16
    assert normed[:, 0].tolist() == [1.0, -1.0]


def test_joined_layers_answer_like_the_layers_they_join() -> None:
    weights = {"a.weight": torch.randn(3, 5), "b.weight": torch.randn(4, 5)}
    states = torch.randn(2, 5)
    joined = Linear.joined(weights, "a", "b")(states)
    parts = [Linear.of(weights, name)(states) for name in ("a", "b")]
    torch.testing.assert_close(joined, torch.cat(parts, dim=-1))


def test_layers_are_joined_with_the_biases_that_they_have() -> None:
    weights = {f"{name}.weight": inputs(3, seed=1) for name in "ab"} | {"b.bias": torch.ones(3)}
    joined = Linear.joined(weights, "a", "b")
    assert joined.bias is not None
    assert joined.bias.tolist() == [0.0] * 3 + [1.0] * 3
    assert Linear.joined(weights, "a", "a").bias is None


def test_the_gate_is_silu() -> None:
    weights = {
        "mlp.gate_proj.weight": torch.tensor([[1.0]]),
        "mlp.up_proj.weight": torch.tensor([[3.0]]),
        "mlp.down_proj.weight": torch.tensor([[2.0]]),
    }
    result = SwiGLU.of(weights, "mlp")(torch.tensor([[2.0]]))
    assert float(result) == pytest.approx(2 / (1 + math.exp(-2)) * 6 * 2)
