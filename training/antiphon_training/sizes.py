"""Sizes of a codec, and its config.json in the official format."""

from dataclasses import dataclass
from typing import Any

SAMPLE_RATE_HZ = 24_000
FRAME_SAMPLES = 1920
"""Samples per frame: 12.5 frames per second."""

ENCODER_STRIDES = (4, 5, 6, 8)
DOWNSAMPLE_STRIDE = 2
UPSAMPLING_RATIOS = (2, 2)
UPSAMPLE_RATES = (8, 5, 4, 3)
DILATIONS = (1, 3, 9)
ROPE_THETA = 10_000.0
NORM_EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class CodecSizes:
    """Sizes of encoder, quantizers and decoder; the decoder's are what a listener pays for.

    Attributes:
        num_codebooks: codes per frame; the first codebook has a quantizer of its own.
        vector_dim: width of a code's vector.
        latent_dim: width of the decoder between its transformer and its convolutions.
        decoder_dim: width of the first convolution to samples; each of four blocks halves it.
        window_frames: frames that a frame of the decoder attends to, itself included.
        num_filters: width of the encoder's first convolution; each of four strides doubles it.
        encoder_hidden_size: width of the encoder's transformer and of the quantizers' input.
    """

    num_codebooks: int = 16
    codebook_size: int = 2048
    vector_dim: int = 64
    latent_dim: int = 256
    decoder_dim: int = 384
    hidden_size: int = 256
    intermediate_size: int = 384
    num_layers: int = 4
    num_heads: int = 4
    head_dim: int = 64
    window_frames: int = 72
    num_filters: int = 32
    encoder_hidden_size: int = 256
    encoder_intermediate_size: int = 1024
    num_encoder_layers: int = 4
    num_encoder_heads: int = 4
    encoder_head_dim: int = 64

    def config(self) -> dict[str, Any]:
        """Return the content of speech_tokenizer/config.json."""
        decoder = {
            "codebook_size": self.codebook_size,
            "codebook_dim": 2 * self.vector_dim,
            "num_quantizers": self.num_codebooks,
            "num_semantic_quantizers": 1,
            "latent_dim": self.latent_dim,
            "decoder_dim": self.decoder_dim,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_heads,
            "head_dim": self.head_dim,
            "sliding_window": self.window_frames,
            "rms_norm_eps": NORM_EPSILON,
            "rope_theta": ROPE_THETA,
            "hidden_act": "silu",
            "attention_bias": False,
            "layer_scale_initial_scale": 0.01,
            "max_position_embeddings": 8000,
            "upsample_rates": list(UPSAMPLE_RATES),
            "upsampling_ratios": list(UPSAMPLING_RATIOS),
        }
        encoder = {
            "_frame_rate": 12.5,
            "model_type": "mimi",
            "sampling_rate": SAMPLE_RATE_HZ,
            "num_filters": self.num_filters,
            "hidden_size": self.encoder_hidden_size,
            "intermediate_size": self.encoder_intermediate_size,
            "num_hidden_layers": self.num_encoder_layers,
            "num_attention_heads": self.num_encoder_heads,
            "num_key_value_heads": self.num_encoder_heads,
            "head_dim": self.encoder_head_dim,
            "codebook_size": self.codebook_size,
            "codebook_dim": self.vector_dim,
            "vector_quantization_hidden_dimension": self.vector_dim,
            "num_quantizers": self.num_codebooks,
            "upsample_groups": self.encoder_hidden_size,
        }
        return {
            "architectures": ["Qwen3TTSTokenizerV2Model"],
            "model_type": "qwen3_tts_tokenizer_12hz",
            "encoder_valid_num_quantizers": self.num_codebooks,
            "input_sample_rate": SAMPLE_RATE_HZ,
            "output_sample_rate": SAMPLE_RATE_HZ,
            "encode_downsample_rate": FRAME_SAMPLES,
            "decode_upsample_rate": FRAME_SAMPLES,
            "decoder_config": decoder,
            "encoder_config": encoder,
            "dtype": "float32",
            "transformers_version": "4.57.1",
        }

    @classmethod
    def of_config(cls, config: dict[str, Any]) -> "CodecSizes":
        """Return the sizes that `config` wrote."""
        decoder, encoder = config["decoder_config"], config["encoder_config"]
        return cls(
            num_codebooks=decoder["num_quantizers"],
            codebook_size=decoder["codebook_size"],
            vector_dim=decoder["codebook_dim"] // 2,
            latent_dim=decoder["latent_dim"],
            decoder_dim=decoder["decoder_dim"],
            hidden_size=decoder["hidden_size"],
            intermediate_size=decoder["intermediate_size"],
            num_layers=decoder["num_hidden_layers"],
            num_heads=decoder["num_attention_heads"],
            head_dim=decoder["head_dim"],
            window_frames=decoder["sliding_window"],
            num_filters=encoder["num_filters"],
            encoder_hidden_size=encoder["hidden_size"],
            encoder_intermediate_size=encoder["intermediate_size"],
            num_encoder_layers=encoder["num_hidden_layers"],
            num_encoder_heads=encoder["num_attention_heads"],
            encoder_head_dim=encoder["head_dim"],
        )


PRESETS = {
    "small": CodecSizes(),
    "tiny": CodecSizes(
        codebook_size=64,
        vector_dim=16,
        latent_dim=32,
        decoder_dim=32,
        hidden_size=32,
        intermediate_size=48,
        num_layers=1,
        num_heads=2,
        head_dim=16,
        num_filters=4,
        encoder_hidden_size=32,
        encoder_intermediate_size=64,
        num_encoder_layers=1,
        num_encoder_heads=2,
        encoder_head_dim=16,
    ),
}
"""``tiny`` is for tests: seconds on a CPU, and no intelligible speech."""
