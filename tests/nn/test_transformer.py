"""Kinds of transformers, with every part that one may lack, against plain arithmetic in f64."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from antiphon.nn.attention import PagedCache, Tokens, cut_tiles
from antiphon.nn.attention_backends import decode_attention, prefill_attention, whole_attention
from antiphon.nn.layer_configs import Llama3Scaling, TransformerConfig
from antiphon.nn.layers import Rope, rotary_order
from antiphon.nn.transformer import Transformer

PLAIN = TransformerConfig(
    hidden_size=24,
    intermediate_size=40,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    norm_eps=1e-6,
    rope_theta=10_000.0,
    max_positions=40,
)
SCALING = Llama3Scaling(factor=8.0, low_factor=1.0, high_factor=4.0, original_positions=64)
KINDS = {
    "llama": PLAIN,
    "llama3": replace(PLAIN, rope_scaling=SCALING),
    "partial": replace(PLAIN, rotary_dim=4),
    "no rope": replace(PLAIN, rotary_dim=0),
}
NUM_POSITIONS = 11


def made_weights(
    config: TransformerConfig, *, has_norms: bool, has_bias: bool, has_output_norms: bool = False
) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    width, head = config.hidden_size, config.head_dim
    queries, keys = config.num_heads * head, config.num_kv_heads * head
    shapes: dict[str, tuple[int, ...]] = {"norm": (width,)}
    for index in range(config.num_layers):
        layer = f"layers.{index}"
        shapes |= {
            f"{layer}.self_attn.q_proj": (queries, width),
            f"{layer}.self_attn.k_proj": (keys, width),
            f"{layer}.self_attn.v_proj": (keys, width),
            f"{layer}.self_attn.o_proj": (width, queries),
            f"{layer}.input_layernorm": (width,),
            f"{layer}.post_attention_layernorm": (width,),
            f"{layer}.mlp.gate_proj": (config.intermediate_size, width),
            f"{layer}.mlp.up_proj": (config.intermediate_size, width),
            f"{layer}.mlp.down_proj": (width, config.intermediate_size),
        }
        if has_norms:
            shapes |= {f"{layer}.self_attn.{part}_norm": (head,) for part in "qk"}
        if has_output_norms:
            for part in ("post_self_attn_layernorm", "post_mlp_layernorm"):
                shapes[f"{layer}.{part}"] = (width,)
    weights = {}
    for name, shape in shapes.items():
        made = torch.randn(shape, generator=generator) / math.sqrt(shape[-1])
        weights[f"{name}.weight"] = made + (1.0 if len(shape) == 1 else 0.0)
        if has_bias and name.endswith(("q_proj", "v_proj")):  # the key's is left to be zero
            weights[f"{name}.bias"] = torch.randn(shape[0], generator=generator)
    return weights


def rotated(heads: Tensor, config: TransformerConfig) -> Tensor:
    """Rotate ``[num_positions, num_heads, head_dim]`` pair by pair, in the checkpoint's order."""
    num_rotated = config.head_dim if config.rotary_dim is None else config.rotary_dim
    result, half = heads.clone(), num_rotated // 2
    for pair in range(half):
        frequency = config.rope_theta ** (-2 * pair / num_rotated)
        if isinstance(config.rope_scaling, Llama3Scaling):
            frequency = scaled(frequency, config.rope_scaling)
        angles = torch.arange(len(heads), dtype=torch.float64)[:, None] * frequency
        first, second = heads[..., pair], heads[..., pair + half]
        result[..., pair] = first * angles.cos() - second * angles.sin()
        result[..., pair + half] = second * angles.cos() + first * angles.sin()
    return result


def scaled(frequency: float, scaling: Llama3Scaling) -> float:
    """Scale as Llama 3's own code does, which looks at wavelengths."""
    wavelength = 2 * math.pi / frequency
    if wavelength < scaling.original_positions / scaling.high_factor:
        return frequency
    if wavelength > scaling.original_positions / scaling.low_factor:
        return frequency / scaling.factor
    smooth = (scaling.original_positions / wavelength - scaling.low_factor) / (
        scaling.high_factor - scaling.low_factor
    )
    return (1 - smooth) * frequency / scaling.factor + smooth * frequency


def plain(
    x: Tensor, weights: dict[str, Tensor], config: TransformerConfig, *, is_causal: bool = True
) -> Tensor:
    def linear(states: Tensor, name: str) -> Tensor:
        bias = weights.get(f"{name}.bias")
        product = states @ weights[f"{name}.weight"].double().T
        return product if bias is None else product + bias.double()

    def norm(states: Tensor, name: str) -> Tensor:
        weight = weights.get(f"{name}.weight")
        if weight is None:
            return states
        size = states.square().mean(-1, keepdim=True) + config.norm_eps
        return states * size.rsqrt() * weight.double()

    seen = torch.ones(len(x), len(x))
    mask = (seen.tril() if is_causal else seen).bool()
    for index in range(config.num_layers):
        name = f"layers.{index}"
        inner = norm(x, f"{name}.input_layernorm")
        queries, keys, values = (
            linear(inner, f"{name}.self_attn.{part}_proj").view(len(x), -1, config.head_dim)
            for part in "qkv"
        )
        queries = rotated(norm(queries, f"{name}.self_attn.q_norm"), config)
        keys = rotated(norm(keys, f"{name}.self_attn.k_norm"), config)
        group = config.num_heads // config.num_kv_heads
        keys, values = (each.repeat_interleave(group, 1) for each in (keys, values))
        scores = torch.einsum("qhd,khd->hqk", queries, keys) / math.sqrt(config.head_dim)
        shares = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        attended = torch.einsum("hqk,khd->qhd", shares, values).flatten(1)
        branch = linear(attended, f"{name}.self_attn.o_proj")
        x = x + norm(branch, f"{name}.post_self_attn_layernorm")
        inner = norm(x, f"{name}.post_attention_layernorm")
        gate, up = (linear(inner, f"{name}.mlp.{part}_proj") for part in ("gate", "up"))
        branch = linear(torch.nn.functional.silu(gate) * up, f"{name}.mlp.down_proj")
        x = x + norm(branch, f"{name}.post_mlp_layernorm")
    return norm(x, "norm")


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("has_norms", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_prefill_and_decode_are_plain_arithmetic(
    kind: str, has_norms: bool, has_bias: bool
) -> None:
    config = KINDS[kind]
    assert_plain(config, made_weights(config, has_norms=has_norms, has_bias=has_bias))


def test_what_is_added_may_be_normed_and_gate_and_up_be_joined() -> None:
    weights = made_weights(PLAIN, has_norms=False, has_bias=True, has_output_norms=True)
    assert_plain(PLAIN, weights)
    apart = model_of(PLAIN, weights)
    assert apart.has_output_norms
    for index in range(PLAIN.num_layers):
        name = f"layers.{index}.mlp"
        parts = [weights.pop(f"{name}.{part}_proj.weight") for part in ("gate", "up")]
        weights[f"{name}.gate_up_proj.weight"] = torch.cat(parts)
    joined = model_of(PLAIN, weights)
    for one, other in zip(apart.layers, joined.layers, strict=True):
        assert torch.equal(one.feed_forward.gate_up.weight, other.feed_forward.gate_up.weight)


def test_positions_of_a_row_may_see_each_other() -> None:
    weights = made_weights(PLAIN, has_norms=False, has_bias=False)
    model = model_of(PLAIN, weights)
    rows = torch.randn(3, 5, PLAIN.hidden_size, generator=torch.Generator())
    ours = model(rows, model.rope.between(0, 5), whole_attention)
    expected = [plain(row.double(), weights, PLAIN, is_causal=False) for row in rows]
    torch.testing.assert_close(ours.double(), torch.stack(expected), atol=2e-5, rtol=2e-5)
    some = model(rows, model.rope.between(0, 5), whole_attention, slice(3, None))
    torch.testing.assert_close(some, ours[:, 3:], atol=1e-5, rtol=1e-5)


def test_each_section_of_a_head_turns_with_its_own_axis() -> None:
    config = replace(PLAIN, head_dim=16, rotary_dim=12, rope_sections=(1, 2, 1, 2))
    rope = Rope.build(config, 9, like=torch.zeros(()))
    plain_rope = Rope.build(replace(config, rope_sections=()), 9, like=torch.zeros(()))
    position = torch.tensor([[2, 5, 7], [3, 3, 3]])
    turned = rope.at(position)
    for dimension, axis in enumerate([0, 1, 1, 2, 0, 0]):  # the first axis comes again
        for at in (dimension, dimension + 8):
            expected = plain_rope.at(position[:, axis])
            assert torch.equal(turned.cosines[..., at], expected.cosines[..., at])
            assert torch.equal(turned.sines[..., at], expected.sines[..., at])
    assert not turned.sines[..., 6:8].any()
    assert torch.equal(turned.sines[1], plain_rope.at(position[1, 0]).sines)


def model_of(config: TransformerConfig, weights: dict[str, Tensor]) -> Transformer:
    named = {f"model.{name}": each for name, each in weights.items()}
    return Transformer.of(named, "model", config, 40)


def assert_plain(config: TransformerConfig, weights: dict[str, Tensor]) -> None:
    """Assert that prefill and decode are what plain arithmetic gives."""
    model = model_of(config, weights)
    table = torch.arange(10, dtype=torch.int32).flip(0)[None]
    cache = PagedCache.zeros(model.kv_shape, 10, 4, table, like=torch.zeros(()))
    states = torch.randn(NUM_POSITIONS, config.hidden_size, generator=torch.Generator())
    split = NUM_POSITIONS - 2
    at = torch.arange(split)
    tiles = torch.from_numpy(cut_tiles([(0, 0, split)]))
    attend = prefill_attention(cache, Tokens(torch.zeros_like(at), at, tiles))
    ours = [model(states[None, :split], model.rope.at(at[None]), attend)[0]]
    for position in range(split, NUM_POSITIONS):
        now = torch.tensor([position])
        step = decode_attention(cache, (torch.zeros_like(now), now), position + 1)
        row = states[None, position : position + 1]
        ours.append(model(row, model.rope.at(now[:, None]), step)[0])
    expected = plain(states.double(), weights, config)
    torch.testing.assert_close(torch.cat(ours).double(), expected, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize(("head_dim", "num_rotated"), [(8, 8), (8, 4), (8, 0), (64, 32), (6, 2)])
def test_each_half_of_a_head_is_half_rotated(head_dim: int, num_rotated: int) -> None:
    order = rotary_order(head_dim, num_rotated)
    assert sorted(order) == [*range(head_dim)]
    half = head_dim // 2
    for number in range(num_rotated // 2):
        assert order[half + number] - order[number] == num_rotated // 2
    config = replace(PLAIN, head_dim=head_dim, rotary_dim=num_rotated)
    rope = Rope.build(config, 9, like=torch.zeros(()))
    assert rope.cosines.shape == (9, head_dim)
    assert torch.equal(rope.sines[:, :half], rope.sines[:, half:])
    assert not rope.sines[:, num_rotated // 2 : half].any()
