"""Kokoro's network: a text half that reads phonemes and an acoustic half that computes frames."""

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor, nn

from antiphon.families.kokoro.checkpoint import KokoroConfig
from antiphon.families.kokoro.padding import PaddedRows
from antiphon.families.kokoro.text_layers import PhonemeBert, PhonemeEncoder, ProsodyPredictor
from antiphon.families.kokoro.vocoder import NUM_HARMONICS, KokoroDecoder

Draw: TypeAlias = Callable[[int], Tensor]
"""Gives normal numbers for a pitch curve of so many values: those of its samples' harmonics,
``[B, length, upsampling * NUM_HARMONICS]``."""


class KokoroModel(nn.Module):
    """The network; parts have the checkpoint's names."""

    def __init__(self, config: KokoroConfig, *, num_channels: int, num_skipped: int) -> None:
        """Make it; arguments as of `KokoroDecoder`."""
        super().__init__()
        self.config = config
        self.bert = PhonemeBert(config)
        self.bert_encoder = nn.Linear(config.bert_hidden_size, config.hidden_dim)
        self.predictor = ProsodyPredictor(config)
        self.text_encoder = PhonemeEncoder(config)
        self.decoder = KokoroDecoder(config, num_channels=num_channels, num_skipped=num_skipped)

    def forward(self, ids: Tensor, style: Tensor, draw: Draw) -> tuple[Tensor, Tensor]:
        """Return samples, ``[num_samples]``, and durations in frames, ``[length]``, of a sentence.

        Ids are padded, ``[1, length]``; the style is ``[1, 2 * style_dim]``.
        """
        encoded, text, durations = self.read(ids, style)
        durations = durations.flatten()
        encoded = encoded.repeat_interleave(durations, dim=1)
        samples = self.samples(encoded, text.repeat_interleave(durations, dim=2), style, draw)
        return samples.flatten(), durations

    def read(
        self, ids: Tensor, style: Tensor, rows: PaddedRows | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read phonemes, whose ``rows`` are those of a padded batch.

        Returns:
            what prosody is computed from, ``[B, length, hidden_dim + style_dim]``; what samples
            are, ``[B, hidden_dim, length]``; and durations in frames, int64 ``[B, length]``.
        """
        _, prosody = style.tensor_split(2, dim=-1)
        hidden = self.bert_encoder(self.bert(ids, rows))
        encoded = self.predictor.text_encoder(hidden, prosody, rows)
        return encoded, self.text_encoder(ids, rows), self.predictor.durations(encoded, rows)

    def samples(
        self,
        encoded: Tensor,
        text: Tensor,
        style: Tensor,
        draw: Draw,
        rows: PaddedRows | None = None,
    ) -> Tensor:
        """Return samples, ``[B, num_samples]``, of phonemes repeated to one column per frame."""
        timbre, prosody = style.tensor_split(2, dim=-1)
        pitch, loudness = self.predictor.curves(encoded, prosody, rows)
        noise = draw(pitch.shape[-1]).reshape(len(text), -1, NUM_HARMONICS)
        samples: Tensor = self.decoder(text, pitch, loudness, timbre, noise, rows)
        return samples
