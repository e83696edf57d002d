"""Checked configuration from cosyvoice3.yaml and the language model's config.json."""

import math
from dataclasses import dataclass
from pathlib import Path

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError
from antiphon.families.cosyvoice3.hyper_yaml import read_hyper_yaml
from antiphon.families.kit.readers.nested_lists import nested_integers
from antiphon.families.kit.readers.transformer import transformer_sizes
from antiphon.nn.layer_configs import TransformerConfig

CONFIG_FILE, TEXT_FOLDER = "cosyvoice3.yaml", "CosyVoice-BlankEN"
MEL_FRAMES_PER_TOKEN = 2
NUM_SPECIAL_TOKENS = 200
"""Ids after the speech tokens. The model reads two of them; every one ends speech."""
SPEAKER_NETWORK, TOKEN_NETWORK = "campplus.onnx", "speech_tokenizer_v3.onnx"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingDefaults:
    """Parameters of repetition-aware sampling in the checkpoint's file.

    Attributes:
        window: number of latest tokens searched for repetitions.
        max_share: share of the window from which a token counts as repeated and is redrawn.
    """

    top_p: float = 0.8
    top_k: int = 25
    window: int = 10
    max_share: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class MelFlowConfig:
    """Configuration of the flow, which turns speech tokens into mel spectrograms.

    Attributes:
        num_tokens: size of the speech token vocabulary.
        look_ahead_tokens: tokens after a token on which its mel frames depend.
        guidance: strength of classifier-free guidance; 0 disables it.
    """

    num_mels: int
    num_tokens: int
    speaker_size: int
    look_ahead_tokens: int
    look_ahead_channels: int
    chunk_tokens: int
    hidden_size: int
    num_layers: int
    num_heads: int
    head_dim: int = 64
    feed_forward_factor: int = 4
    guidance: float

    @property
    def chunk_frames(self) -> int:
        """Mel frames computed in one pass."""
        return MEL_FRAMES_PER_TOKEN * self.chunk_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class VocoderConfig:
    """Configuration of the vocoder, which turns mel spectrograms into samples.

    Attributes:
        base_channels: channels before the first upsampling; every upsampling halves them.
        num_overtones: overtones of the source, the fundamental excluded.
        kernel_sizes: kernel sizes of the blocks after each upsampling.
        look_ahead_frames: mel frames after a frame on which its features depend.
        max_level: level at which samples are clipped.
    """

    num_mels: int
    sample_rate_hz: int
    base_channels: int
    pitch_channels: int
    num_overtones: int
    sine_level: float
    voiced_noise: float
    min_voiced_hz: float
    upsample_rates: tuple[int, ...]
    upsample_kernel_sizes: tuple[int, ...]
    fft_size: int
    hop_samples: int
    kernel_sizes: tuple[int, ...]
    dilations: tuple[tuple[int, ...], ...]
    source_kernel_sizes: tuple[int, ...]
    source_dilations: tuple[tuple[int, ...], ...]
    slope: float
    max_level: float
    look_ahead_frames: int

    @property
    def samples_per_mel_frame(self) -> int:
        return math.prod(self.upsample_rates) * self.hop_samples

    @property
    def source_strides(self) -> list[int]:
        """Strides to each upsampling's columns from those of the source's spectra."""
        rates = self.upsample_rates
        return [math.prod(rates[index:]) for index in range(1, len(rates) + 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CosyVoice3Config:
    """Configuration of a checkpoint.

    Attributes:
        num_tokens: size of the speech token vocabulary.
    """

    sample_rate_hz: int
    text: TransformerConfig
    text_vocab_size: int
    num_tokens: int
    sampling: SamplingDefaults
    flow: MelFlowConfig
    vocoder: VocoderConfig

    @property
    def num_speech_ids(self) -> int:
        """Ids that the language model can output, including those that end speech."""
        return self.num_tokens + NUM_SPECIAL_TOKENS


def load_config(path: Path) -> CosyVoice3Config:
    """Read a checkpoint's configuration; raises ModelLoadError."""
    top = read_hyper_yaml(path / CONFIG_FILE)
    language = top.section("llm")
    text, vocab_size = _text_config(path / TEXT_FOLDER / "config.json")
    if language.integer("llm_input_size") != text.hidden_size:
        raise language.error("llm_input_size", f"must be {text.hidden_size}, as of {TEXT_FOLDER}")
    config = CosyVoice3Config(
        sample_rate_hz=top.integer("sample_rate"),
        text=text,
        text_vocab_size=vocab_size,
        num_tokens=language.integer("speech_token_size"),
        sampling=language.section("sampling").build(
            SamplingDefaults, {"window": "win_size", "max_share": "tau_r"}
        ),
        flow=_flow_config(top.section("flow")),
        vocoder=_vocoder_config(top.section("hift")),
    )
    _check(path, config)
    return config


def _text_config(file: Path) -> tuple[TransformerConfig, int]:
    section = ConfigSection.read(file)
    section.expect("model_type", "qwen2", default="qwen2")
    section.expect("use_sliding_window", False, default=False)
    rope = section.rope(default_theta=1e6)
    rope.expect("rope_type", "default")
    usual = {"norm_eps": 1e-6, "max_positions": 32768}
    sizes = transformer_sizes(section, defaults=usual, rope_theta=rope.number("rope_theta"))
    if sizes.num_heads * sizes.head_dim != sizes.hidden_size:
        message = f"must divide 'hidden_size', {sizes.hidden_size}"
        raise section.error("num_attention_heads", message)
    return sizes, section.integer("vocab_size")


def _flow_config(flow: ConfigSection) -> MelFlowConfig:
    flow.expect("token_mel_ratio", MEL_FRAMES_PER_TOKEN, default=MEL_FRAMES_PER_TOKEN)
    flow.expect("input_frame_rate", 25, default=25)
    decoder = flow.section("decoder")
    transformer = decoder.section("estimator")
    transformer.expect("long_skip_connection", False, default=False)
    matching = decoder.section("cfm_params").section("content")
    matching.expect("solver", "euler", default="euler")
    matching.expect("t_scheduler", "cosine", default="cosine")
    look_ahead = flow.section("pre_lookahead_layer")
    num_mels = flow.integer("output_size")
    for section, key in ((flow, "input_size"), (transformer, "mel_dim"), (transformer, "spk_dim")):
        section.expect(key, num_mels)
    chunk_frames = transformer.integer("static_chunk_size")
    if chunk_frames < 2 or chunk_frames % MEL_FRAMES_PER_TOKEN:
        raise transformer.error("static_chunk_size", "must be an even number of mel frames")
    return transformer.build(
        MelFlowConfig,
        _FLOW_KEYS,
        num_mels=num_mels,
        num_tokens=flow.integer("vocab_size"),
        speaker_size=flow.integer("spk_embed_dim"),
        look_ahead_tokens=flow.integer("pre_lookahead_len"),
        look_ahead_channels=look_ahead.integer("channels"),
        chunk_tokens=chunk_frames // MEL_FRAMES_PER_TOKEN,
        guidance=matching.number("inference_cfg_rate"),
    )


_FLOW_KEYS = {
    "hidden_size": "dim",
    "num_layers": "depth",
    "num_heads": "heads",
    "head_dim": "dim_head",
    "feed_forward_factor": "ff_mult",
}
_VOCODER_KEYS = {
    "num_mels": "in_channels",
    "sample_rate_hz": "sampling_rate",
    "num_overtones": "nb_harmonics",
    "sine_level": "nsf_alpha",
    "voiced_noise": "nsf_sigma",
    "min_voiced_hz": "nsf_voiced_threshold",
    "kernel_sizes": "resblock_kernel_sizes",
    "source_kernel_sizes": "source_resblock_kernel_sizes",
    "slope": "lrelu_slope",
    "max_level": "audio_limit",
    "look_ahead_frames": "conv_pre_look_right",
}


def _vocoder_config(hift: ConfigSection) -> VocoderConfig:
    spectrum = hift.section("istft_params")
    pitch = hift.section("f0_predictor")
    pitch.expect("num_class", 1, default=1)
    return hift.build(
        VocoderConfig,
        _VOCODER_KEYS,
        pitch_channels=pitch.integer("cond_channels"),
        fft_size=spectrum.integer("n_fft"),
        hop_samples=spectrum.integer("hop_len"),
        dilations=nested_integers(hift, "resblock_dilation_sizes"),
        source_dilations=nested_integers(hift, "source_resblock_dilation_sizes"),
    )


def _check(path: Path, config: CosyVoice3Config) -> None:
    """Refuse sizes that contradict each other; raises ModelLoadError."""
    flow, vocoder, file = config.flow, config.vocoder, path / CONFIG_FILE
    per_stage = (vocoder.upsample_kernel_sizes, vocoder.source_kernel_sizes)
    lengths = {len(each) for each in (*per_stage, vocoder.source_dilations)}
    has_lengths = lengths == {len(vocoder.upsample_rates)}
    has_lengths &= len(vocoder.kernel_sizes) == len(vocoder.dilations)
    has_tokens, has_mels = config.num_tokens == flow.num_tokens, flow.num_mels == vocoder.num_mels
    has_rate = config.sample_rate_hz == vocoder.sample_rate_hz
    has_frames = vocoder.samples_per_mel_frame * 50 == vocoder.sample_rate_hz
    has_hops = vocoder.fft_size == 4 * vocoder.hop_samples
    has_ahead = (flow.look_ahead_tokens, vocoder.look_ahead_frames) == (3, 4)
    fits = {
        "'speech_token_size' of 'llm' and 'vocab_size' of 'flow' differ": has_tokens,
        "'output_size' of 'flow' and 'in_channels' of 'hift' differ": has_mels,
        "'sample_rate' and 'sampling_rate' of 'hift' differ": has_rate,
        "the upsampling of 'hift' does not make 50 mel frames a second": has_frames,
        "'n_fft' of 'hift' must be four times 'hop_len'": has_hops,
        "lists of 'hift' have different lengths": has_lengths,
        "'pre_lookahead_len' must be 3 and 'conv_pre_look_right' 4": has_ahead,
    }
    for problem, is_right in fits.items():
        if not is_right:
            raise ModelLoadError(f"{file}: {problem}")


def has_voice_encoder(path: Path) -> bool:
    """Return whether a checkpoint's directory supports voice cloning."""
    return all((path / name).is_file() for name in (SPEAKER_NETWORK, TOKEN_NETWORK))
