"""The sizes of the original network, as its config.json has them."""

from dataclasses import dataclass
from pathlib import Path

from antiphon.contracts.config_file import ConfigSection


@dataclass(frozen=True, slots=True, kw_only=True)
class KokoroConfig:
    """Sizes; those of the decoder's layers that no published file states are the weights' own.

    Attributes:
        n_token: phonemes that have numbers.
        hidden_dim: channels of the text and prosody parts.
        style_dim: numbers of half a style.
        n_layer: convolutions of the text encoder, and recurrent layers of the duration encoder.
        max_dur: most frames of a phoneme.
        text_encoder_kernel_size: kernel size of the text encoder's convolutions.
        bert_hidden_size: channels of the phoneme language model.
        num_heads: attention heads of the phoneme BERT.
        bert_intermediate_size: hidden size of its feed-forward layers.
        num_positions: most phonemes, with padding.
        num_bert_layers: times that its one layer is applied.
        upsample_rates: strides of the vocoder's upsampling stages.
        upsample_kernel_sizes: kernel sizes of these stages.
        upsample_channels: channels before the first stage; each stage halves them.
        kernel_sizes: kernel sizes of the residual blocks of a stage.
        dilations: dilations of the convolutions of each of these blocks.
        fft_size: FFT size of the final inverse STFT, in samples.
        hop_size: hop of the final inverse STFT, in samples.
    """

    n_token: int
    hidden_dim: int
    style_dim: int
    n_layer: int
    max_dur: int
    text_encoder_kernel_size: int
    bert_hidden_size: int
    num_heads: int
    bert_intermediate_size: int
    num_positions: int
    num_bert_layers: int
    upsample_rates: tuple[int, ...]
    upsample_kernel_sizes: tuple[int, ...]
    upsample_channels: int
    kernel_sizes: tuple[int, ...]
    dilations: tuple[tuple[int, ...], ...]
    fft_size: int
    hop_size: int

    @property
    def frame_upsampling(self) -> int:
        """Samples for each value of the pitch curve, of which a frame has two."""
        product = self.hop_size
        for rate in self.upsample_rates:
            product *= rate
        return product


def load_config(path: Path) -> KokoroConfig:
    """Read a checkpoint's config.json.

    Raises:
        ModelLoadError: The file, or a value in it, is missing.
    """
    top = ConfigSection.read(path / "config.json")
    bert, vocoder = top.section("plbert"), top.section("istftnet")
    return top.build(
        KokoroConfig,
        bert_hidden_size=bert.integer("hidden_size"),
        num_heads=bert.integer("num_attention_heads"),
        bert_intermediate_size=bert.integer("intermediate_size"),
        num_positions=bert.integer("max_position_embeddings"),
        num_bert_layers=bert.integer("num_hidden_layers"),
        upsample_rates=vocoder.integers("upsample_rates"),
        upsample_kernel_sizes=vocoder.integers("upsample_kernel_sizes"),
        upsample_channels=vocoder.integer("upsample_initial_channel"),
        kernel_sizes=vocoder.integers("resblock_kernel_sizes"),
        dilations=_dilations(vocoder),
        fft_size=vocoder.integer("gen_istft_n_fft"),
        hop_size=vocoder.integer("gen_istft_hop_size"),
    )


def _dilations(vocoder: ConfigSection) -> tuple[tuple[int, ...], ...]:
    key = "resblock_dilation_sizes"
    rows = vocoder.values.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise vocoder.error(key, f"must be a list of lists, but is {rows!r}")
    return tuple(tuple(int(each) for each in row) for row in rows)
