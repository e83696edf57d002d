"""Configuration of a checkpoint's networks, flow and audio, from config.json."""

import math
from dataclasses import dataclass
from pathlib import Path

from antiphon.contracts.config_file import ConfigSection
from antiphon.nn.layer_configs import LongRopeScaling, TransformerConfig

AUDIO_START, REFERENCE_START, REFERENCE_END = 101, 103, 104
"""Ids fixed by the official program: start of speech, start and end of a reference."""
MIN_FRAMES = 4
"""Frames before the stop head is read, as in the official program."""
MIN_STEPS, DEFAULT_STEPS, MAX_STEPS = 2, 10, 50
"""Range of Euler steps; with a single step the output would be noise."""
MIN_GUIDANCE, DEFAULT_GUIDANCE, MAX_GUIDANCE = 0.0, 2.0, 10.0
MAX_POSITIONS = 4096
"""Positions per request, prompt and speech together: more than ten minutes."""

_SCALED_CONDITIONS = ("scale_bias", "scale_bias_init")


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioVAEConfig:
    """Configuration of the AudioVAE; defaults are the official ones.

    Attributes:
        encoder_rates: downsampling factors of the encoder's blocks; each doubles the channels.
        decoder_rates: upsampling factors of the decoder's blocks; each halves the channels.
        depthwise: whether wide convolutions are depthwise.
        sample_rate: sample rate of the encoder's input.
        out_sample_rate: sample rate of the decoder's output.
        sample_rate_bin: index of the embedded range that holds ``out_sample_rate``; ``None``:
            rates are not embedded.
        num_sample_rate_bins: number of embedded ranges.
    """

    encoder_dim: int = 128
    encoder_rates: tuple[int, ...] = (2, 5, 8, 8)
    latent_dim: int = 64
    decoder_dim: int = 2048
    decoder_rates: tuple[int, ...] = (8, 6, 5, 2, 2, 2)
    depthwise: bool = True
    sample_rate: int = 16000
    out_sample_rate: int = 48000
    sample_rate_bin: int | None = None
    num_sample_rate_bins: int = 0

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
        residual: language model over outputs of ``base``; may have no rotary embedding.
        encoder: transformer that encodes a patch.
        flow: transformer that estimates velocities of a patch.
        vocab_size: rows of the text embedding.
        embedding_scale: factor of text embeddings.
        branch_scales: factor of the residual branches in each network, in the order above.
        patch_size: latents per patch.
        feature_size: numbers per latent.
        bottleneck_size: width of the scalar quantizer.
        quantizer_scale: quantizer levels between 0 and 1.
        has_mean_flow: whether velocities depend on the length of the step.
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
    has_mean_flow: bool
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
    """Read config.json of a checkpoint's directory.

    Raises:
        ModelLoadError: the file or a key is missing, has the wrong type, or requires something
            that is not implemented; the message names file and key.
    """
    top = ConfigSection.read(path / "config.json", unpacks=True)
    top.expect("architecture", "voxcpm2")
    text, flow = top.section("lm_config"), top.section("dit_config")
    flow.section("cfm_config", {}).expect("solver", "euler", default="euler")
    base = _transformer(text)
    has_no_rope = top.boolean("residual_lm_no_rope", False)
    residual_layers = top.integer("residual_lm_num_layers", 8)
    residual = _transformer(text, num_layers=residual_layers, has_rope=not has_no_rope)
    encoder = _local(text, top.section("encoder_config"))
    estimator = _local(text, flow)
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
        has_mean_flow=flow.boolean("dit_mean_mode", False),
        max_positions=min(top.integer("max_length", 8192), MAX_POSITIONS),
    )
    if config.vae.latent_dim != config.feature_size:
        raise top.error("feat_dim", f"must be that of the AudioVAE, {config.vae.latent_dim}")
    if config.vocab_size <= REFERENCE_END:
        raise text.error("vocab_size", f"must be above {REFERENCE_END}, a special token")
    return config


def _transformer(
    text: ConfigSection, *, num_layers: int | None = None, has_rope: bool = True
) -> TransformerConfig:
    num_heads, hidden_size = _heads(text, "num_attention_heads"), text.integer("hidden_size")
    head_dim = text.integer("kv_channels", hidden_size // num_heads)
    return TransformerConfig(
        hidden_size=hidden_size,
        intermediate_size=text.integer("intermediate_size"),
        num_layers=text.integer("num_hidden_layers") if num_layers is None else num_layers,
        num_heads=num_heads,
        num_kv_heads=_kv_heads(text, num_heads),
        head_dim=head_dim,
        norm_eps=text.number("rms_norm_eps"),
        rope_theta=text.number("rope_theta", 10000.0),
        max_positions=text.integer("max_position_embeddings"),
        rotary_dim=None if has_rope else 0,
        rope_scaling=_long_rope(text, head_dim) if has_rope else None,
    )


def _local(text: ConfigSection, local: ConfigSection) -> TransformerConfig:
    """Read a network inside a patch; omitted sizes are the language model's."""
    num_heads, hidden_size = _heads(local, "num_heads"), local.integer("hidden_dim", 1024)
    head_dim = local.integer("kv_channels", hidden_size // num_heads)
    return TransformerConfig(
        hidden_size=hidden_size,
        intermediate_size=local.integer("ffn_dim", 4096),
        num_layers=local.integer("num_layers", 4),
        num_heads=num_heads,
        num_kv_heads=_kv_heads(text, num_heads),
        head_dim=head_dim,
        norm_eps=text.number("rms_norm_eps"),
        rope_theta=text.number("rope_theta", 10000.0),
        max_positions=text.integer("max_position_embeddings"),
        rope_scaling=_long_rope(text, head_dim),
    )


def _heads(section: ConfigSection, key: str) -> int:
    num_heads = section.integer(key, 16)
    if num_heads < 1:
        raise section.error(key, "must be at least 1")
    return num_heads


def _kv_heads(text: ConfigSection, num_heads: int) -> int:
    num_kv_heads = text.integer("num_key_value_heads")
    if num_kv_heads < 1 or num_heads % num_kv_heads:
        raise text.error("num_key_value_heads", f"must divide {num_heads}")
    return num_kv_heads


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
    boundaries: tuple[int, ...] = (20000, 30000, 40000)
    if "sr_bin_boundaries" in section.values:
        is_none = section.values["sr_bin_boundaries"] is None
        boundaries = () if is_none else section.integers("sr_bin_boundaries")
    if boundaries:
        section.expect("cond_type", *_SCALED_CONDITIONS, default="scale_bias")
    rate_hz = section.integer("out_sample_rate", AudioVAEConfig().out_sample_rate)
    sample_rate_bin = sum(each < rate_hz for each in boundaries) if boundaries else None
    return section.build(
        AudioVAEConfig,
        sample_rate_bin=sample_rate_bin,
        num_sample_rate_bins=len(boundaries) + 1 if boundaries else 0,
    )
