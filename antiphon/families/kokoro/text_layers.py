"""The half of the network that reads: phonemes to features, durations, pitch and loudness.

Names of parameters are the checkpoint's. Without `PaddedRows` there is one sentence, and nothing is
masked.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.families.kokoro.checkpoint import KokoroConfig
from antiphon.families.kokoro.padding import BothWays, PaddedRows, own
from antiphon.families.kokoro.styled_layers import StyledLayerNorm, StyledResidual

_EMBEDDING_SIZE = 128
_BERT_EPS = 1e-12
_SLOPE = 0.2


class BertAttention(nn.Module):
    """Self-attention over all positions, with shortcut and norm."""

    def __init__(self, size: int, num_heads: int) -> None:
        super().__init__()
        self._num_heads = num_heads
        self.query, self.key, self.value, self.dense = (nn.Linear(size, size) for _ in range(4))
        self.LayerNorm = nn.LayerNorm(size, _BERT_EPS)

    def forward(self, x: Tensor, rows: PaddedRows | None) -> Tensor:
        query, key, value = (
            project(x).unflatten(-1, (self._num_heads, -1)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        mask = None if rows is None else rows.is_own[:, None]
        attended = functional.scaled_dot_product_attention(query, key, value, mask)
        normed: Tensor = self.LayerNorm(x + self.dense(attended.transpose(1, 2).flatten(-2)))
        return normed


class BertLayer(nn.Module):
    """Attention and a feed-forward part, each normalised after its shortcut."""

    def __init__(self, size: int, inner_size: int, num_heads: int) -> None:
        super().__init__()
        self.attention = BertAttention(size, num_heads)
        self.ffn = nn.Linear(size, inner_size)
        self.ffn_output = nn.Linear(inner_size, size)
        self.full_layer_layer_norm = nn.LayerNorm(size, _BERT_EPS)

    def forward(self, x: Tensor, rows: PaddedRows | None) -> Tensor:
        x = self.attention(x, rows)
        inner = self.ffn_output(functional.gelu(self.ffn(x), approximate="tanh"))
        normed: Tensor = self.full_layer_layer_norm(inner + x)
        return normed


class PhonemeBert(nn.Module):
    """ALBERT over phonemes: one layer, applied again and again."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        size = config.bert_hidden_size
        self._num_layers = config.num_bert_layers
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(config.n_token, _EMBEDDING_SIZE),
                "position_embeddings": nn.Embedding(config.num_positions, _EMBEDDING_SIZE),
                "token_type_embeddings": nn.Embedding(2, _EMBEDDING_SIZE),
                "LayerNorm": nn.LayerNorm(_EMBEDDING_SIZE, _BERT_EPS),
            }
        )
        layer = BertLayer(size, config.bert_intermediate_size, config.num_heads)
        group = nn.ModuleDict({"albert_layers": nn.ModuleList([layer])})
        self.encoder = nn.ModuleDict(
            {
                "embedding_hidden_mapping_in": nn.Linear(_EMBEDDING_SIZE, size),
                "albert_layer_groups": nn.ModuleList([group]),
            }
        )
        self._layer = (layer,)  # known by its other name already

    def forward(self, ids: Tensor, rows: PaddedRows | None = None) -> Tensor:
        """Return ``[B, length, size]`` for ids ``[B, length]``."""
        parts = self.embeddings
        positions = torch.arange(ids.shape[1], device=ids.device)
        kinds = torch.zeros_like(ids)
        x = parts["word_embeddings"](ids) + parts["token_type_embeddings"](kinds)
        x = parts["LayerNorm"](x + parts["position_embeddings"](positions))
        mapped: Tensor = self.encoder["embedding_hidden_mapping_in"](x)
        (layer,) = self._layer
        for _ in range(self._num_layers):
            mapped = layer(mapped, rows)
        return mapped


class _ChannelNorm(nn.Module):
    def __init__(self, num_channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(num_channels))
        self.beta = nn.Parameter(torch.zeros(num_channels))

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x.mT, self.gamma.shape, self.gamma, self.beta).mT


class PhonemeEncoder(nn.Module):
    """Text features of the vocoder: convolutions, then a bidirectional recurrent layer."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        size, kernel = config.hidden_dim, config.text_encoder_kernel_size
        self.embedding = nn.Embedding(config.n_token, size)
        self.cnn = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(size, size, kernel, padding=(kernel - 1) // 2),
                _ChannelNorm(size),
                nn.LeakyReLU(_SLOPE),
            )
            for _ in range(config.n_layer)
        )
        self.lstm = BothWays(size, size)

    def forward(self, ids: Tensor, rows: PaddedRows | None = None) -> Tensor:
        """Return ``[B, size, length]``."""
        x = self.embedding(ids).mT
        for convolution in self.cnn:
            x = convolution(own(x, rows))
        return self.lstm.outputs(x.mT, rows).mT


class DurationEncoder(nn.Module):
    """Recurrent layers that see the style anew before each."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        size, style_size = config.hidden_dim, config.style_dim
        self.lstms = nn.ModuleList()
        for _ in range(config.n_layer):
            self.lstms.append(BothWays(size + style_size, size))
            self.lstms.append(StyledLayerNorm(style_size, size))

    def forward(self, x: Tensor, style: Tensor, rows: PaddedRows | None = None) -> Tensor:
        """Return ``[B, length, size + style]`` for ``[B, length, size]``."""
        styles = style.unsqueeze(1).expand(-1, x.shape[1], -1)
        x = torch.cat([x, styles], dim=-1)
        for recurrent, norm in zip(self.lstms[::2], self.lstms[1::2], strict=True):
            assert isinstance(recurrent, BothWays)
            x = torch.cat([norm(recurrent.outputs(x, rows), style), styles], dim=-1)
        return x


class ProsodyPredictor(nn.Module):
    """Prediction of phoneme durations, and of pitch and loudness over time."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        size, style_size = config.hidden_dim, config.style_dim
        self.text_encoder = DurationEncoder(config)
        self.lstm = BothWays(size + style_size, size)
        self.duration_proj = nn.ModuleDict({"linear_layer": nn.Linear(size, config.max_dur)})
        self.shared = BothWays(size + style_size, size)
        sizes = ((size, size), (size, size // 2), (size // 2, size // 2))
        self.F0, self.N = (
            nn.ModuleList(
                StyledResidual(*each, style_size, doubles=index == 1)
                for index, each in enumerate(sizes)
            )
            for _ in range(2)
        )
        self.F0_proj, self.N_proj = (nn.Conv1d(size // 2, 1, 1) for _ in range(2))

    def durations(self, encoded: Tensor, rows: PaddedRows | None = None) -> Tensor:
        """Return the frames of each phoneme, int64 ``[B, length]``; padding has none."""
        features = self.lstm.outputs(encoded, rows)
        likelihoods = torch.sigmoid(self.duration_proj["linear_layer"](features))
        durations = likelihoods.sum(dim=-1).round().clamp(min=1).long()
        return durations if rows is None else durations * rows.is_own[:, 0]

    def curves(
        self, frames: Tensor, style: Tensor, rows: PaddedRows | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return pitch in Hz and loudness, each ``[B, 1, 2 * num_frames]``."""
        shared = self.shared.outputs(frames, rows).mT
        pitch, loudness = (_through(blocks, shared, style, rows) for blocks in (self.F0, self.N))
        return self.F0_proj(pitch), self.N_proj(loudness)


def _through(blocks: nn.ModuleList, x: Tensor, style: Tensor, rows: PaddedRows | None) -> Tensor:
    for block in blocks:
        assert isinstance(block, StyledResidual)
        x, rows = block(x, style, rows), block.rows_after(rows)
    return x
