"""Talker and code predictor of Qwen3-TTS as trainable modules.

Tensor names are those of the official checkpoints, so that a state dict is a checkpoint. The
architecture is described in `antiphon.families.qwen3_tts.talker` and `antiphon.nn.code_predictor`,
which run the same weights.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor, nn

from antiphon_training.language_model.sizes import LayerSizes, ModelSizes

NUM_GROUPS = 16
_EMBEDDING_STD = 0.05
_HEAD_STD = 0.02


class RMSNorm(nn.Module):
    """Norm by the root mean square."""

    def __init__(self, width: int, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, states: Tensor) -> Tensor:
        return F.rms_norm(states, self.weight.shape, self.weight.to(states.dtype), self.epsilon)


class Attention(nn.Module):
    """Causal self-attention with grouped heads, a norm per head and rotary positions."""

    def __init__(self, sizes: LayerSizes) -> None:
        super().__init__()
        self.head_dim = sizes.head_dim
        width = sizes.hidden_size
        inner, shared = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
        self.q_proj = nn.Linear(width, inner, bias=False)
        self.k_proj = nn.Linear(width, shared, bias=False)
        self.v_proj = nn.Linear(width, shared, bias=False)
        self.o_proj = nn.Linear(inner, width, bias=False)
        self.q_norm = RMSNorm(sizes.head_dim)
        self.k_norm = RMSNorm(sizes.head_dim)

    def forward(self, states: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        heads = (*states.shape[:-1], -1, self.head_dim)
        query = self.q_norm(self.q_proj(states).view(heads))
        key = self.k_norm(self.k_proj(states).view(heads))
        value = self.v_proj(states).view(heads)
        query = _rotated(query, cosines, sines).transpose(1, 2)
        key = _rotated(key, cosines, sines).transpose(1, 2)
        attended = F.scaled_dot_product_attention(
            query, key, value.transpose(1, 2), is_causal=True, enable_gqa=True
        )
        output: Tensor = self.o_proj(attended.transpose(1, 2).flatten(2))
        return output


class GatedMLP(nn.Module):
    """SwiGLU."""

    def __init__(self, sizes: LayerSizes) -> None:
        super().__init__()
        width, inner = sizes.hidden_size, sizes.intermediate_size
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        output: Tensor = self.down_proj(F.silu(self.gate_proj(states)) * self.up_proj(states))
        return output


class DecoderLayer(nn.Module):
    """Attention, then feed-forward, each pre-normed and added to its input."""

    def __init__(self, sizes: LayerSizes, dropout: float) -> None:
        super().__init__()
        self.self_attn = Attention(sizes)
        self.mlp = GatedMLP(sizes)
        self.input_layernorm = RMSNorm(sizes.hidden_size)
        self.post_attention_layernorm = RMSNorm(sizes.hidden_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        attended = self.self_attn(self.input_layernorm(states), cosines, sines)
        states = states + self.dropout(attended)
        output: Tensor = states + self.dropout(self.mlp(self.post_attention_layernorm(states)))
        return output


class Decoder(nn.Module):
    """Stack of layers and the final norm; subclasses add embeddings."""

    def __init__(self, sizes: LayerSizes, dropout: float) -> None:
        super().__init__()
        self.sizes = sizes
        self.layers = nn.ModuleList(DecoderLayer(sizes, dropout) for _ in range(sizes.num_layers))
        self.norm = RMSNorm(sizes.hidden_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor) -> Tensor:
        """Return the normed final states, ``[rows, positions, hidden_size]``, of inputs."""
        cosines, sines = _rotation(states, self.sizes)
        states = self.dropout(states)
        for layer in self.layers:
            states = layer(states, cosines, sines)
        normed: Tensor = self.norm(states)
        return normed


class TalkerDecoder(Decoder):
    """Layers of the talker, with its two embeddings."""

    def __init__(self, sizes: ModelSizes, dropout: float) -> None:
        super().__init__(sizes.talker, dropout)
        self.codec_embedding = nn.Embedding(sizes.codec_vocab_size, sizes.talker.hidden_size)
        self.text_embedding = nn.Embedding(sizes.text_vocab_size, sizes.text_hidden_size)


class PredictorDecoder(Decoder):
    """Layers of the code predictor, with an embedding of each group but the first."""

    def __init__(self, sizes: ModelSizes, dropout: float) -> None:
        super().__init__(sizes.predictor, dropout)
        self.codec_embedding = nn.ModuleList(
            nn.Embedding(sizes.codebook_size, sizes.talker.hidden_size)
            for _ in range(NUM_GROUPS - 1)
        )


class TextProjection(nn.Module):
    """Projection of text embeddings to the talker's width."""

    def __init__(self, sizes: ModelSizes) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(sizes.text_hidden_size, sizes.text_hidden_size)
        self.linear_fc2 = nn.Linear(sizes.text_hidden_size, sizes.talker.hidden_size)

    def forward(self, rows: Tensor) -> Tensor:
        projected: Tensor = self.linear_fc2(F.silu(self.linear_fc1(rows)))
        return projected


class CodePredictor(nn.Module):
    """Model of the groups after the first, within a frame."""

    def __init__(self, sizes: ModelSizes, dropout: float) -> None:
        super().__init__()
        width, outer = sizes.predictor.hidden_size, sizes.talker.hidden_size
        self.model = PredictorDecoder(sizes, dropout)
        self.lm_head = nn.ModuleList(
            nn.Linear(width, sizes.codebook_size, bias=False) for _ in range(NUM_GROUPS - 1)
        )
        if width != outer:
            self.small_to_mtp_projection = nn.Linear(outer, width)
        self.has_projection = width != outer

    def forward(self, states: Tensor, first: Tensor, codes: Tensor) -> Tensor:
        """Return normed states, one per group after the first that ``codes`` allow to predict.

        Args:
            states: talker states that group 0 was drawn from, ``[frames, width of the talker]``.
            first: embeddings of group 0, of the same shape.
            codes: codes of groups 1 to ``n``, ``[frames, n]``.

        Returns:
            ``[frames, n + 1, hidden_size]``: state ``g`` predicts group ``g + 1``.
        """
        tables = weights_of(self.model.codec_embedding)[: codes.shape[1]]
        parts = [states[:, None], first.to(states.dtype)[:, None]]
        if tables:
            offsets = torch.arange(len(tables), device=codes.device) * len(tables[0])
            parts.append(F.embedding(codes + offsets, torch.cat(tables)).to(states.dtype))
        inputs = torch.cat(parts, 1)
        if self.has_projection:
            inputs = self.small_to_mtp_projection(inputs)
        final: Tensor = self.model(inputs)
        return final[:, 1:]

    def logits(self, states: Tensor) -> Tensor:
        """Return the logits of the last groups of ``states``, one group for each position.

        Args:
            states: ``[frames, groups, hidden_size]``, for groups 1 to ``groups``.

        Returns:
            ``[groups, frames, codebook_size]``.
        """
        heads = torch.stack(weights_of(self.lm_head)[: states.shape[1]])
        return torch.bmm(states.transpose(0, 1), heads.to(states.dtype).transpose(1, 2))


class Talker(nn.Module):
    """Model of the first group of each frame, with the code predictor inside it."""

    def __init__(self, sizes: ModelSizes, dropout: float) -> None:
        super().__init__()
        self.model = TalkerDecoder(sizes, dropout)
        self.text_projection = TextProjection(sizes)
        self.codec_head = nn.Linear(sizes.talker.hidden_size, sizes.codec_vocab_size, bias=False)
        self.code_predictor = CodePredictor(sizes, dropout)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Talker input, with utterances in rows padded at their end.

    Attributes:
        text: text ids, ``[rows, positions]``; -1: none.
        codec: ids of the codec's vocabulary beside frames, ``[rows, positions]``; -1: none.
        frame_places: flat position of each frame, ``[frames]``.
        codes: codes of the frames, ``[frames, groups]``.
    """

    text: Tensor
    codec: Tensor
    frame_places: Tensor
    codes: Tensor


class LanguageModel(nn.Module):
    """The tensors of ``model.safetensors`` in a CustomVoice checkpoint."""

    def __init__(self, sizes: ModelSizes, dropout: float = 0.0) -> None:
        """Draw weights.

        Args:
            sizes: sizes of the networks.
            dropout: share of what layers read and add that is left out in training.
        """
        super().__init__()
        self.sizes = sizes
        self.talker = Talker(sizes, dropout)
        self.apply(_initialize)
        for weight in (
            self.talker.codec_head.weight,
            *weights_of(self.talker.code_predictor.lm_head),
        ):
            nn.init.normal_(weight, std=_HEAD_STD)
        for decoder in (self.talker.model, self.talker.code_predictor.model):
            num_branches = 2 * decoder.sizes.num_layers
            for name, weight in decoder.named_parameters():
                if name.endswith(("o_proj.weight", "down_proj.weight")):
                    weight.data.mul_(num_branches**-0.5)

    def compile_layers(self) -> None:
        """Let small kernels of each layer become few; the code of a layer is compiled once."""
        for decoder in (self.talker.model, self.talker.code_predictor.model):
            for layer in decoder.layers:
                layer.compile(dynamic=True)

    def hidden(self, inputs: Inputs) -> Tensor:
        """Return the talker's normed states, ``[rows * positions, hidden_size]``."""
        states: Tensor = self.talker.model(self.embed(inputs))
        return states.flatten(0, 1)

    def embed(self, inputs: Inputs) -> Tensor:
        """Return the talker's input embeddings, ``[rows, positions, hidden_size]``."""
        talker = self.talker
        text_table = talker.text_projection(talker.model.text_embedding.weight)
        states = _known(inputs.text, text_table)
        states = states + _known(inputs.codec, talker.model.codec_embedding.weight)
        if not len(inputs.codes):
            return states
        tables = [talker.model.codec_embedding.weight]
        tables += weights_of(talker.code_predictor.model.codec_embedding)
        later = torch.arange(NUM_GROUPS - 1, device=inputs.codes.device) * self.sizes.codebook_size
        ids = inputs.codes + F.pad(later + len(tables[0]), (1, 0))
        frames = F.embedding_bag(ids, torch.cat(tables), mode="sum")
        flat = states.flatten(0, 1).index_add(0, inputs.frame_places, frames.to(states.dtype))
        return flat.view(states.shape)

    def first_logits(self, states: Tensor) -> Tensor:
        """Return logits of group 0, ``[..., codec_vocab_size]``."""
        logits: Tensor = self.talker.codec_head(states)
        return logits

    def later_states(self, states: Tensor, codes: Tensor) -> Tensor:
        """Return the predictor's states.

        Args:
            states: talker states of frames, ``[frames, hidden_size]``.
            codes: first codes of the frames, ``[frames, n]``.

        Returns:
            ``[frames, n, hidden_size]``: state ``g`` predicts group ``g + 1``.
        """
        first = F.embedding(codes[:, 0], self.talker.model.codec_embedding.weight)
        final: Tensor = self.talker.code_predictor(states, first, codes[:, 1:])
        return final


def weights_of(modules: nn.ModuleList) -> list[Tensor]:
    """Return the weights of embeddings or projections."""
    weights: list[Tensor] = []
    for module in modules:
        assert isinstance(module, nn.Embedding | nn.Linear)
        weights.append(module.weight)
    return weights


def _known(ids: Tensor, table: Tensor) -> Tensor:
    """Look up ids; negative ones, which stand for no id, give zeros."""
    return F.embedding(ids.clamp(min=0), table) * (ids >= 0)[..., None].to(table.dtype)


def _rotation(states: Tensor, sizes: LayerSizes) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of all positions, ``[positions, 1, head_dim / 2]``."""
    half = sizes.head_dim // 2
    places = torch.arange(states.shape[1], device=states.device, dtype=torch.float32)
    exponents = torch.arange(half, device=states.device, dtype=torch.float32) / half
    angles = places[:, None] * (sizes.rope_theta**-exponents)
    return angles.cos()[:, None], angles.sin()[:, None]


def _rotated(heads: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    cosines, sines = cosines.to(heads.dtype), sines.to(heads.dtype)
    first, second = heads.chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=module.in_features**-0.5)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=_EMBEDDING_STD)
