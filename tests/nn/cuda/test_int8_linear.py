"""Packing takes little memory beside the packed weights, and none of it stays unused."""

import torch

from antiphon.nn.cuda.int8_linear import ScaledLinear
from antiphon.nn.layers import Linear
from tests.nn.cuda.allocator import MIB, Allocator

SHAPES = [(4096, 2048), (2048, 2048), (12288, 2048), (2048, 6144)]  # a layer of Qwen3-TTS 1.7B


def test_a_gpu_keeps_no_memory_that_packing_took() -> None:
    like = torch.empty(0, dtype=torch.bfloat16, device="meta")
    with Allocator() as allocator:
        layers = [
            ScaledLinear.pack(Linear(torch.empty(shape, dtype=torch.bfloat16)), like)
            for shape in 4 * SHAPES
        ]
        allocator.empty_cache()
        packed = sum(each.weight.nbytes for each in layers)
        assert allocator.allocated - packed < MIB
        assert allocator.peak - packed < 32 * MIB
        assert allocator.reserved - packed < 32 * MIB


def test_parts_are_packed_as_the_whole_and_scaled_in_float32() -> None:
    torch.manual_seed(0)
    weight = torch.randn(3000, 512, dtype=torch.bfloat16)
    layer = ScaledLinear.pack(Linear(weight), weight)
    scales = weight.float().abs().amax(1) / 127
    assert layer.scales is not None
    assert torch.equal(layer.scales, scales)
    assert torch.equal(layer.weight, (weight.float() / scales[:, None]).round().to(torch.int8))
    states = torch.randn(5, 512, dtype=torch.bfloat16)
    product = torch.nn.functional.linear(states, layer.weight.bfloat16())
    assert torch.equal(layer(states), (product.float() * scales).bfloat16())
