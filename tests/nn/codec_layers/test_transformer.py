"""Either kind of transformer layer streams: in any grouping it equals one pass over the whole."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from antiphon.nn.codec_layers.conv import LayerBuilder
from antiphon.nn.codec_layers.state import DecoderState, EmptyHistory, SlotHistory, StateLayout
from antiphon.nn.codec_layers.transformer import CodecTransformer, GeluFeedForward, LayerNorm
from antiphon.nn.layer_configs import TransformerConfig

WIDTH, WINDOW, NUM_KEYS, NUM_FRAMES = 16, 5, 12, 20
CONFIG = TransformerConfig(
    hidden_size=WIDTH,
    intermediate_size=24,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=4,
    norm_eps=1e-5,
    rope_theta=10000.0,
    max_positions=100,
    window=WINDOW,
)


def weights_of(kind: str) -> dict[str, Tensor]:
    shapes: dict[str, tuple[int, ...]] = {}
    for index in range(CONFIG.num_layers):
        layer = f"t.layers.{index}"
        for part, outputs in (("q", 16), ("k", 8), ("v", 8)):
            shapes[f"{layer}.self_attn.{part}_proj.weight"] = (outputs, WIDTH)
        shapes[f"{layer}.self_attn.o_proj.weight"] = (WIDTH, 16)
        for scale in ("self_attn_layer_scale.scale", "mlp_layer_scale.scale"):
            shapes[f"{layer}.{scale}"] = (WIDTH,)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{layer}.{norm}.weight"] = (WIDTH,)
            if kind == "layer_norm":
                shapes[f"{layer}.{norm}.bias"] = (WIDTH,)
        names = ("fc1", "fc2") if kind == "layer_norm" else ("gate_proj", "down_proj")
        shapes[f"{layer}.mlp.{names[0]}.weight"] = (24, WIDTH)
        shapes[f"{layer}.mlp.{names[1]}.weight"] = (WIDTH, 24)
        if kind == "rms_norm":
            shapes[f"{layer}.mlp.up_proj.weight"] = (24, WIDTH)
    random = torch.Generator().manual_seed(3)
    return {
        name: torch.randn(shape, generator=random) * 0.3 + ("norm.weight" in name)
        for name, shape in shapes.items()
    }


def stream(transformer: CodecTransformer, x: Tensor, sizes: Sequence[int], row_size: int) -> Tensor:
    state = DecoderState(torch.zeros(1, row_size), torch.zeros(1, dtype=torch.int64))
    results = []
    for part in torch.split(x, list(sizes), dim=1):
        history = SlotHistory(state, part.shape[1], WINDOW, NUM_KEYS)
        results.append(transformer(part, history))
        history.advance()
    return torch.cat(results, dim=1)


@pytest.mark.parametrize("kind", ["rms_norm", "layer_norm"])
def test_a_stream_in_any_grouping_equals_the_whole(kind: str) -> None:
    layout = StateLayout()
    transformer = CodecTransformer.of(LayerBuilder(weights_of(kind), layout), "t", CONFIG, NUM_KEYS)
    is_layer_norm = kind == "layer_norm"
    assert isinstance(transformer.layers[0].attention_norm, LayerNorm) == is_layer_norm
    assert isinstance(transformer.layers[0].feed_forward, GeluFeedForward) == is_layer_norm
    x = torch.randn(1, NUM_FRAMES, WIDTH, generator=torch.Generator().manual_seed(4))
    whole = transformer(x, EmptyHistory(NUM_FRAMES, WINDOW, x.device))
    for sizes in ([1] * NUM_FRAMES, [8, 1, 7, 4], [3, 8, 8, 1]):
        streamed = stream(transformer, x, sizes, layout.row_size)
        torch.testing.assert_close(streamed, whole, rtol=0, atol=1e-5)


def test_without_a_window_a_frame_attends_to_all_before_it() -> None:
    transformer = CodecTransformer.of(LayerBuilder(weights_of("layer_norm")), "t", CONFIG)
    x = torch.randn(1, NUM_FRAMES, WIDTH, generator=torch.Generator().manual_seed(5))
    causal = transformer(x, EmptyHistory(NUM_FRAMES, None, x.device))
    longest = transformer(x, EmptyHistory(NUM_FRAMES, NUM_FRAMES, x.device))
    torch.testing.assert_close(causal, longest, rtol=0, atol=1e-5)
    windowed = transformer(x, EmptyHistory(NUM_FRAMES, WINDOW, x.device))
    assert not torch.allclose(causal[:, WINDOW:], windowed[:, WINDOW:], atol=1e-3)
