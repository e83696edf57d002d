"""Models inside a frame of random weights, of the size that a resident program is written for."""

import torch
from torch import Tensor

from antiphon.nn.code_predictor import CodePredictor
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.layers import Linear
from antiphon.nn.sampler import SamplingReach, SamplingRows, gumbel_noise
from antiphon.nn.transformer import Transformer

VOCAB, WIDTH = 2048, 1024


def predictor_of(
    device: torch.device, *, num_layers: int = 5, num_groups: int = 15, seed: int = 0
) -> CodePredictor:
    config = TransformerConfig(
        hidden_size=WIDTH,
        intermediate_size=3 * WIDTH,
        num_layers=num_layers,
        num_heads=16,
        num_kv_heads=8,
        head_dim=128,
        norm_eps=1e-6,
        rope_theta=1e6,
        max_positions=num_groups + 1,
    )
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int, scale: float = 0.02, mean: float = 0.0) -> Tensor:
        numbers = torch.randn(*shape, generator=generator) * scale + mean
        return numbers.to(device, torch.bfloat16)

    def norm(size: int) -> Tensor:
        return random(size, scale=0.1, mean=1.0)

    weights = {"model.norm.weight": norm(WIDTH)}
    for index in range(num_layers):
        name = f"model.layers.{index}"
        for part, outputs, inputs in (
            ("self_attn.q_proj", 2048, WIDTH),
            ("self_attn.k_proj", 1024, WIDTH),
            ("self_attn.v_proj", 1024, WIDTH),
            ("self_attn.o_proj", WIDTH, 2048),
            ("mlp.gate_proj", 3 * WIDTH, WIDTH),
            ("mlp.up_proj", 3 * WIDTH, WIDTH),
            ("mlp.down_proj", WIDTH, 3 * WIDTH),
        ):
            weights[f"{name}.{part}.weight"] = random(outputs, inputs)
        for part, size in (
            ("self_attn.q_norm", 128),
            ("self_attn.k_norm", 128),
            ("input_layernorm", WIDTH),
            ("post_attention_layernorm", WIDTH),
        ):
            weights[f"{name}.{part}.weight"] = norm(size)
    return CodePredictor(
        transformer=Transformer.of(weights, "model", config, num_groups + 1),
        projection=None,
        tables=tuple(random(VOCAB, WIDTH, scale=0.5) for _ in range(num_groups)),
        heads=tuple(Linear(random(VOCAB, WIDTH, scale=0.06)) for _ in range(num_groups)),
    )


def rows_of(
    temperature: list[float], top_k: list[int], top_p: list[float], device: torch.device
) -> SamplingRows:
    """Return parameters as a step has them: columns of a table."""
    table = torch.tensor([temperature, top_k, top_p, [1.0] * len(top_k)]).T.to(device)
    heat, kept, share, penalty = table.unbind(1)
    reach = SamplingReach(VOCAB, uses_top_p=True)
    return SamplingRows(heat, kept.long(), share, penalty, reach)


def noise_of(num_rows: int, num_groups: int, device: torch.device, first_seed: int = 0) -> Tensor:
    seeds = torch.arange(first_seed, first_seed + num_rows)[:, None] * torch.tensor([[7, 3]])
    frames, groups = torch.full((num_rows,), 5), torch.arange(1, num_groups + 1)
    return gumbel_noise(seeds, frames, groups, VOCAB).to(device)
