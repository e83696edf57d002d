"""Configuration of a checkpoint's networks, flow and audio, from config.json."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from antiphon.contracts.config_file import ConfigSection
from antiphon.families.kit.readers.transformer import transformer_sizes
from antiphon.nn.layer_configs import TRANSFORMER_KEYS, LongRopeScaling, TransformerConfig

AUDIO_START, REFERENCE_START, REFERENCE_END = 101, 103, 104
"""Ids fixed by the official program: start of speech, start and end of a reference."""
MIN_FRAMES = 4
"""Frames before the stop head is read, as in the official program."""
MIN_STEPS, DEFAULT_STEPS, MAX_STEPS = 2, 10, 50
"""Range of Euler steps; with a single step the output would be noise."""
MIN_GUIDANCE, DEFAULT_GUIDANCE, MAX_GUIDANCE = 0.0, 2.0, 10.0
MAX_POSITIONS = 4096
"""Positions per request, prompt and speech together: more than ten minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioVAEConfig:
    """Configuration of the AudioVAE; defaults are the official ones.

    Attributes:
        encoder_rates: downsampling factors of the encoder's blocks; each doubles the channels.
        decoder_rates: upsampling factors of the decoder's blocks; each halves the channels.
        sample_rate: sample rate of the encoder's input.
        out_sample_rate: sample rate of the decoder's output.
        sample_rate_bin: index of the embedded range that holds ``out_sample_rate``.
        num_sample_rate_bins: number of embedded ranges.
    """

    encoder_dim: int = 128
    encoder_rates: tuple[int, ...] = (2, 5, 8, 8)
    latent_dim: int = 64
    decoder_dim: int = 2048
    decoder_rates: tuple[int, ...] = (8, 6, 5, 2, 2, 2)
    sample_rate: int = 16000
    out_sample_rate: int = 48000
    sample_rate_bin: int = 3
    num_sample_rate_bins: int = 4

    @property
    def encoded_samples(self) -> int:
        """Input samples per latent."""
        return math.prod(self.encoder_rates)

    @property
    def decoded_samples(self) -> int:
        """Output samples per latent."""
        return math.prod(self.decoder_rates)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoxCPM2Config:
    """Configuration of a checkpoint.

    Attributes:
        base: language model over text and patches.
        residual: language model over outputs of ``base``, without a rotary embedding.
        flow: transformer that estimates velocities of a patch.
        branch_scales: factor of the residual branches in each network, in the order above.
        feature_size: numbers per latent.
        bottleneck_size: width of the scalar quantizer.
        quantizer_scale: quantizer levels between 0 and 1.
        max_positions: maximum number of positions in training.
    """

    base: TransformerConfig
    residual: TransformerConfig
    encoder: TransformerConfig
    flow: TransformerConfig
    vae: AudioVAEConfig
    vocab_size: int
    embedding_scale: float
    branch_scales: tuple[float, float, float, float]
    patch_size: int
    feature_size: int
    bottleneck_size: int
    quantizer_scale: int
    max_positions: int

    @property
    def frame_size(self) -> int:
        """Numbers per frame: the end flag, then the patch."""
        return 1 + self.patch_size * self.feature_size

    @property
    def samples_per_frame(self) -> int:
        return self.patch_size * self.vae.decoded_samples

    @property
    def encoded_samples_per_frame(self) -> int:
        """Reference samples per patch, at the encoder's rate."""
        return self.patch_size * self.vae.encoded_samples

    @property
    def position_size(self) -> int:
        """Numbers in the keys and values of a position."""
        return self.base.position_size + self.residual.position_size


def load_config(path: Path) -> VoxCPM2Config:
    """Read config.json of a checkpoint's directory; raises ModelLoadError."""
    top = ConfigSection.read(path / "config.json", unpacks=True)
    top.expect("architecture", "voxcpm2")
    text, flow = top.section("lm_config"), top.section("dit_config")
    flow.section("cfm_config", {}).expect("solver", "euler", default="euler")
    top.expect("residual_lm_no_rope", True, default=False)
    flow.expect("dit_mean_mode", False, default=False)
    base = _sizes(text, _TEXT_KEYS, num_heads=16)
    num_layers = top.integer("residual_lm_num_layers", 8)
    residual = replace(base, num_layers=num_layers, rotary_dim=0, rope_scaling=None)
    encoder, estimator = _local(text, top.section("encoder_config")), _local(text, flow)
    is_scaled = text.boolean("use_mup", True)
    depth = text.number("scale_depth", 1.0)
    scales = [
        depth / math.sqrt(each.num_layers) if is_scaled else 1.0
        for each in (base, residual, encoder, estimator)
    ]
    config = VoxCPM2Config(
        base=base,
        residual=residual,
        encoder=encoder,
        flow=estimator,
        vae=_vae(top),
        vocab_size=text.integer("vocab_size"),
        embedding_scale=text.number("scale_emb", 1.0) if is_scaled else 1.0,
        branch_scales=(scales[0], scales[1], scales[2], scales[3]),
        patch_size=top.integer("patch_size", 4),
        feature_size=top.integer("feat_dim", 64),
        bottleneck_size=top.integer("scalar_quantization_latent_dim", 512),
        quantizer_scale=top.integer("scalar_quantization_scale", 9),
        max_positions=min(top.integer("max_length", 8192), MAX_POSITIONS),
    )
    if config.vae.latent_dim != config.feature_size:
        raise top.error("feat_dim", f"must be that of the AudioVAE, {config.vae.latent_dim}")
    if config.vocab_size <= REFERENCE_END:
        raise text.error("vocab_size", f"must be above {REFERENCE_END}, a special token")
    return config


_TEXT_KEYS = {**TRANSFORMER_KEYS, "head_dim": "kv_channels"}
_LOCAL_KEYS = _TEXT_KEYS | {
    "hidden_size": "hidden_dim",
    "intermediate_size": "ffn_dim",
    "num_layers": "num_layers",
    "num_heads": "num_heads",
}
_LOCAL_SIZES = {"hidden_size": 1024, "intermediate_size": 4096, "num_layers": 4, "num_heads": 16}


def _sizes(section: ConfigSection, keys: Mapping[str, str], **usual: int) -> TransformerConfig:
    theta = section.number("rope_theta", 10000.0)
    sizes = transformer_sizes(section, keys, usual, rope_theta=theta)
    return replace(sizes, rope_scaling=_long_rope(section, sizes.head_dim))


def _local(text: ConfigSection, local: ConfigSection) -> TransformerConfig:
    """Read a network inside a patch; what it has no key for is the language model's."""
    values = {**text.values, "kv_channels": None, **local.values}
    return _sizes(replace(local, values=values), _LOCAL_KEYS, **_LOCAL_SIZES)


def _long_rope(text: ConfigSection, head_dim: int) -> LongRopeScaling:
    """Return the factors for the longest sequence, which apply to all lengths."""
    rope = text.section("rope_scaling")
    longest = text.integer("max_position_embeddings")
    original = rope.integer("original_max_position_embeddings")
    if original < 2:
        raise rope.error("original_max_position_embeddings", "must be at least 2")
    key = "long_factor" if longest > original else "short_factor"
    factors = rope.values.get(key)
    is_list = isinstance(factors, list) and len(factors) == head_dim // 2
    if not is_list or not all(type(each) in (int, float) and each > 0 for each in factors or ()):
        raise rope.error(key, f"must be a list of {head_dim // 2} numbers above 0")
    stretch = math.log(longest / original) / math.log(original)
    if stretch < -1:
        raise rope.error("original_max_position_embeddings", "is too far above the longest")
    return LongRopeScaling(
        factors=tuple(float(each) for each in factors or ()), amplitude=math.sqrt(1 + stretch)
    )


def _vae(top: ConfigSection) -> AudioVAEConfig:
    section = top.section("audio_vae_config", {})
    section.expect("use_noise_block", False, default=False)
    section.expect("cond_out_layer", False, default=False)
    section.expect("depthwise", True, default=True)
    section.expect("cond_type", "scale_bias", "scale_bias_init", default="scale_bias")
    boundaries = section.integers("sr_bin_boundaries", (20000, 30000, 40000))
    rate_hz = section.integer("out_sample_rate", AudioVAEConfig().out_sample_rate)
    number = sum(each < rate_hz for each in boundaries)
    bins = len(boundaries) + 1
    return section.build(AudioVAEConfig, sample_rate_bin=number, num_sample_rate_bins=bins)
