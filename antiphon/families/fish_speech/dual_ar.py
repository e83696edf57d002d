"""The slow model, for one semantic code per frame, and the fast one, for the other codes.

Both consist of Llama layers whose rotary embeddings rotate adjacent pairs of dimensions. Weights of
queries and keys are permuted to paired halves when they are loaded, which preserves all products.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from antiphon.families.fish_speech.config import FishSpeechConfig
from antiphon.nn.attention import HeadShape, QKVHeads
from antiphon.nn.code_predictor import CodePredictor, FrameTable
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.layers import Linear, RMSNorm, Rope, SwiGLU, Weights
from antiphon.nn.sampler import keep_nucleus
from antiphon.nn.transformer import DecoderLayer, Transformer

_ROWS_ARE_A_MULTIPLE_OF = 64  # head rows, for fast kernels


@dataclass(frozen=True, slots=True)
class SlowModel:
    """The language model over frames.

    A code of group 0 is a semantic code, or the following number, which ends speech.

    Attributes:
        transformer: layers without the final norm, which is the head's.
        text_table: embeddings of all ids, ``[vocab_size, hidden_size]``.
        frame_table: scaled embeddings of the codes of frames.
        head: projection to logits of group 0, padded from ``num_codes`` on.
        norms_fast_input: whether the fast model reads normalised states.
    """

    transformer: Transformer
    norm: RMSNorm
    text_table: Tensor
    frame_table: FrameTable
    head: Linear
    num_codes: int
    norms_fast_input: bool

    @property
    def end(self) -> int:
        """Code that ends speech, the last one."""
        return self.num_codes - 1

    @classmethod
    def of(
        cls,
        weights: Weights,
        config: FishSpeechConfig,
        max_positions: int,
        is_batch_invariant: bool,
    ) -> "SlowModel":
        """Build the model from a checkpoint's tensors, all of one type and on one device."""
        text_table = weights["embeddings.weight"]
        outputs = text_table if config.is_tied else weights["output.weight"]
        transformer = _transformer(weights, "", config.slow, max_positions, is_batch_invariant)
        code_rows = _rows_of_codes(outputs, config)
        padding = outputs.new_zeros(-len(code_rows) % _ROWS_ARE_A_MULTIPLE_OF, code_rows.shape[1])
        return cls(
            transformer=replace(transformer, is_normed_last=False),
            norm=transformer.norm,
            text_table=text_table,
            frame_table=_frame_table(weights, text_table, config),
            head=Linear(torch.cat((code_rows, padding)), is_batch_invariant=is_batch_invariant),
            num_codes=len(code_rows),
            norms_fast_input=config.is_s2,
        )


def load_fast_model(
    weights: Weights, config: FishSpeechConfig, is_batch_invariant: bool
) -> CodePredictor:
    """Build the fast model from a checkpoint's tensors.

    All groups share its embedding and its head, which is limited to the codec's codes.
    """
    projection = None
    if config.has_projection:
        name = "fast_project_in"
        projection = Linear.of(weights, name, is_batch_invariant=is_batch_invariant)
    table = weights["fast_embeddings.weight"]
    first = table[: config.tokens.num_semantic]
    residual = table[: config.residual_codes].clone()
    head = Linear(weights["fast_output.weight"][: config.residual_codes].clone())
    num_codebooks, num_others = config.num_codebooks, config.num_codebooks - 1
    return CodePredictor(
        transformer=_transformer(weights, "fast_", config.fast, num_codebooks, is_batch_invariant),
        projection=projection,
        # Codes after the end are unused, but must have a row.
        tables=(torch.cat((first, first[:1])), *[residual] * (num_others - 1)),
        heads=(head,) * num_others,
        filter=keep_nucleus,
    )


def _rows_of_codes(table: Tensor, config: FishSpeechConfig) -> Tensor:
    """Return the rows of semantic tokens, followed by that of the end."""
    tokens = config.tokens
    semantic = table[tokens.first_semantic : tokens.first_semantic + tokens.num_semantic]
    return torch.cat((semantic, table[tokens.end : tokens.end + 1]))


def _frame_table(weights: Weights, text_table: Tensor, config: FishSpeechConfig) -> FrameTable:
    """Fold a frame's token embedding, which its first code determines, into that code's."""
    table = weights["codebook_embeddings.weight"]
    codebooks = torch.unflatten(table, 0, (-1, config.codebook_size))
    scale = 1 / math.sqrt(config.num_codebooks + 1) if config.is_s2 else 1.0
    first = _rows_of_codes(text_table, config).float()
    first[:-1] += codebooks[0, : config.tokens.num_semantic]
    tables = [first, *(table[: config.residual_codes].float() for table in codebooks[1:])]
    return FrameTable.of([(table * scale).to(text_table.dtype) for table in tables])


def _transformer(
    weights: Weights,
    prefix: str,
    config: TransformerConfig,
    max_positions: int,
    is_batch_invariant: bool,
) -> Transformer:
    """Load the layers and the final norm below ``prefix``."""
    norm = RMSNorm(weights[f"{prefix}norm.weight"], config.norm_eps)
    rope = Rope.build(config, max_positions, like=torch.zeros(()))
    # The models were trained with tables of this type for any weight type.
    cosines, sines = (each.bfloat16().to(norm.weight) for each in (rope.cosines, rope.sines))
    names = (f"{prefix}layers.{index}" for index in range(config.num_layers))
    return Transformer(
        layers=tuple(_layer(weights, name, config) for name in names),
        norm=norm,
        rope=Rope(cosines, sines),
        is_batch_invariant=is_batch_invariant,
    )


def paired_order(head_dim: int) -> list[int]:
    """Return the permutation of a head's dimensions from adjacent pairs to paired halves."""
    return [*range(0, head_dim, 2), *range(1, head_dim, 2)]


def _layer(weights: Weights, name: str, config: TransformerConfig) -> DecoderLayer:
    attention, feed_forward = f"{name}.attention", f"{name}.feed_forward"
    order = paired_order(config.head_dim)

    def head_norm(part: str) -> RMSNorm | None:
        weight = weights.get(f"{attention}.{part}_norm.weight")
        return None if weight is None else RMSNorm(weight[order], config.norm_eps)

    shape = HeadShape(config.num_heads, config.num_kv_heads, config.head_dim)
    return DecoderLayer(
        heads=QKVHeads(shape, head_norm("q"), head_norm("k")),
        attention_norm=RMSNorm(weights[f"{name}.attention_norm.weight"], config.norm_eps),
        query_key_value=shape.reordered(Linear.of(weights, f"{attention}.wqkv"), order),
        output=Linear.of(weights, f"{attention}.wo"),
        feed_forward_norm=RMSNorm(weights[f"{name}.ffn_norm.weight"], config.norm_eps),
        feed_forward=SwiGLU(
            Linear.joined(weights, f"{feed_forward}.w1", f"{feed_forward}.w3"),
            Linear.of(weights, f"{feed_forward}.w2"),
        ),
    )
