"""Configuration of a checkpoint and of its audio tokenizer, a separate repository."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError
from antiphon.nn.layer_configs import TRANSFORMER_KEYS, TransformerConfig

MAX_POSITIONS: Final = 8192
"""Groups per request, prompt and speech together; a group is 160 ms or a text token."""

PASS_GROUPS: Final = 4
"""Groups per pass of the tokenizer's decoder, which takes hardly longer than one group."""
TOKENIZER_NAME: Final = "MiMo-Audio-Tokenizer"

_STREAMED_S = 10.0  # look-back of the tokenizer's decoder, as in official streaming
_NORM_GROUPS = 6  # look-ahead of a norm over time
_LOCAL_HEADS = "local_attn_heads"


@dataclass(frozen=True, slots=True, kw_only=True)
class MiMoAudioConfig:
    """Configuration of the language model over groups, and of its local transformers.

    Attributes:
        transformer: language model.
        decoder: patch decoder, which generates the codes of a group.
        encoder: patch encoder, which embeds them.
        vocab_size: text ids.
        group_frames: code frames per group.
        code_sizes: codes of each channel, including the empty one.
        empty_codes: code of each channel without audio.
        delays: delay of each channel in steps of the patch decoder.
        is_encoder_causal: whether frames in a group attend only to earlier ones.
    """

    transformer: TransformerConfig
    decoder: TransformerConfig
    encoder: TransformerConfig
    vocab_size: int
    group_frames: int
    code_sizes: tuple[int, ...]
    empty_codes: tuple[int, ...]
    delays: tuple[int, ...]
    is_encoder_causal: bool

    @property
    def num_channels(self) -> int:
        """Codes per frame."""
        return len(self.code_sizes)

    @property
    def frame_size(self) -> int:
        """Numbers per step: the text id, then all codes of a group, frame by frame."""
        return 1 + self.group_frames * self.num_channels

    @property
    def empty_group(self) -> tuple[int, ...]:
        """The codes of a group without audio."""
        return self.empty_codes * self.group_frames


@dataclass(frozen=True, slots=True, kw_only=True)
class NetConfig:
    """Configuration of a stack of tokenizer layers: LayerNorm, rotary attention, GELU.

    Attributes:
        left: attention window before a position; ``None``: unlimited.
        right: attention window after a position; ``None``: unlimited.
    """

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    rope_theta: float
    left: int | None
    right: int | None

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_heads


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioTokenizerConfig:
    """Configuration of MiMo-Audio-Tokenizer, which converts audio to codes and back.

    Attributes:
        encoder: layers between mel spectrogram and codes.
        decoder: layers after the codes.
        vocoder: layers between mel spectrogram and waveform.
        encoder_skip: layer whose output is added to the last one's; ``None``: none.
        kernel_size: kernel size of the encoder's convolutions.
        stride: stride of the encoder's second convolution.
        pooling: positions per frame, before and after the layers.
        decoder_kernel_size: kernel size of the transposed convolution to mel frames.
        decoder_stride: mel frames per position.
        code_sizes: codes of each quantizer.
        num_codes_used: number of quantizers used by the language model.
        fft_size: size of FFT and window.
        min_hz: lowest frequency of the encoder's mel spectrogram.
        max_hz: highest frequency of the encoder's mel spectrogram.
        norm_groups: look-ahead of norms, see `num_ahead` of
            `antiphon.families.mimo_audio.codec_layers.TimeNorm`.
    """

    encoder: NetConfig
    decoder: NetConfig
    vocoder: NetConfig
    encoder_skip: int | None
    kernel_size: int
    stride: int
    pooling: int
    decoder_kernel_size: int
    decoder_stride: int
    num_mels: int
    code_sizes: tuple[int, ...]
    num_codes_used: int
    fft_size: int
    hop_samples: int
    sample_rate_hz: int
    min_hz: float
    max_hz: float
    group_frames: int
    norm_groups: int

    @property
    def group_positions(self) -> int:
        """Positions of the decoder's layers per group."""
        return self.group_frames * self.pooling

    @property
    def group_mels(self) -> int:
        """Mel frames per group."""
        return self.group_positions * self.decoder_stride

    @property
    def samples_per_group(self) -> int:
        """Samples per group."""
        return self.group_mels * self.hop_samples


def load_config(path: Path) -> MiMoAudioConfig:
    """Read config.json of a checkpoint's directory.

    Raises:
        ModelLoadError: a key is missing, has the wrong type, or requires something that is not
            implemented.
    """
    top = ConfigSection.read(path / "config.json", unpacks=True)
    top.expect("hidden_act", "silu", default="silu")
    top.expect("tie_word_embeddings", False, default=False)
    top.expect("use_sliding_window", False, default=False)
    top.rope().expect("rope_type", "default")
    num_channels = _bounded(top, "audio_channels", 8, 32)
    group_frames = _bounded(top, "group_size", 4, 16)
    sizes = _listed(top, "speech_vocab_size", "1025-1025-129-129-129-129-129-129", num_channels)
    empty = _listed(top, "speech_zeroemb_idx", "1024-1024-128-128-128-128-128-128", num_channels)
    if any(code >= size for code, size in zip(empty, sizes, strict=True)):
        raise top.error("speech_zeroemb_idx", "names codes that 'speech_vocab_size' has not")
    delays = _listed(top, "delay_pattern", "0-1-2-3-4-5-6-7", num_channels)
    local_width = top.integer("local_dim", 1024)
    input_width = top.integer("input_local_dim", local_width)
    return MiMoAudioConfig(
        transformer=_main_stack(top),
        decoder=_local_stack(
            top,
            "local_dim",
            local_width,
            top.integer("local_ffn_dim", 4096),
            top.integer("local_layers", 16),
            group_frames + max(delays),
        ),
        encoder=_local_stack(
            top,
            "input_local_dim",
            input_width,
            4 * input_width,
            top.integer("input_local_layers", 6),
            group_frames,
        ),
        vocab_size=top.integer("vocab_size"),
        group_frames=group_frames,
        code_sizes=sizes,
        empty_codes=empty,
        delays=delays,
        is_encoder_causal=not top.boolean("input_full_attention", False),
    )


def load_tokenizer_config(path: Path, model: MiMoAudioConfig) -> AudioTokenizerConfig:
    """Read config.json of an audio tokenizer's directory.

    Args:
        path: path of the directory.
        model: configuration of the model that uses the codes.

    Raises:
        ModelLoadError: see `load_config`; or the tokenizer does not match the model.
    """
    top = ConfigSection.read(path / "config.json")
    _expect_known(top)
    stride, hop = top.integer("decoder_stride_size", 2), top.integer("hop_length", 240)
    fft_size, rate_hz = top.integer("nfft", 1024), top.integer("sampling_rate", 24000)
    decoder = _net(top, "decoder_", "d_model", "decoder_layers", "decoder_ffn_dim", (-1, -1))
    if decoder.left is None:
        decoder = replace(decoder, left=round(_STREAMED_S * rate_hz / (hop * stride)) - 1)
    vocoder = _net(
        top, "vocoder_", "vocoder_dim", "vocoder_num_layers", "vocoder_intermediate_dim", (40, 10)
    )
    if vocoder.left is None or vocoder.right is None:
        raise top.error("vocoder_attn_window_size", "must be two bounds: it is decoded as a stream")
    skip, max_hz = top.values.get("encoder_skip_layer_id"), top.values.get("fmax")
    return AudioTokenizerConfig(
        encoder=_net(top, "encoder_", "d_model", "encoder_layers", "encoder_ffn_dim", (-1, -1)),
        decoder=decoder,
        vocoder=vocoder,
        encoder_skip=None if skip is None else top.integer("encoder_skip_layer_id"),
        kernel_size=top.integer("kernel_size", 3),
        stride=top.integer("stride_size", 2),
        pooling=top.integer("avg_pooler", 1),
        decoder_kernel_size=top.integer("decoder_kernel_size", 3),
        decoder_stride=stride,
        num_mels=top.integer("n_mels", 80),
        code_sizes=_code_sizes(top, model),
        num_codes_used=model.num_channels,
        fft_size=fft_size,
        hop_samples=hop,
        sample_rate_hz=rate_hz,
        min_hz=top.number("fmin", 0.0),
        max_hz=rate_hz / 2 if max_hz is None else top.number("fmax"),
        group_frames=model.group_frames,
        norm_groups=_NORM_GROUPS,
    )


def tokenizer_path(path: Path) -> Path:
    """Return the directory of the audio tokenizer that belongs to a checkpoint.

    The checkpoint's directory, its parent and the hub's cache around it are searched.

    Raises:
        ModelLoadError: the tokenizer is in none of them; the message explains how to get it.
    """
    if (found := found_tokenizer(path)) is not None:
        return found
    inside, beside, *_ = _places(path)
    raise ModelLoadError(
        f"{path}: MiMo-Audio needs its audio tokenizer, which is a repository of its own:"
        f" XiaomiMiMo/{TOKENIZER_NAME}. Put it, or a link to it, into {inside} or {beside};"
        " in the cache of the hub it is found where it was downloaded."
    )


def found_tokenizer(path: Path) -> Path | None:
    """Return the same as `tokenizer_path`, but ``None`` if it is missing: text needs none."""
    return next((each for each in _places(path) if (each / "config.json").is_file()), None)


def _places(path: Path) -> list[Path]:
    places = [path / TOKENIZER_NAME, path.parent / TOKENIZER_NAME]
    if path.parent.name == "snapshots":
        cache = path.parent.parent.parent
        places += sorted((cache / f"models--XiaomiMiMo--{TOKENIZER_NAME}/snapshots").glob("*"))
    return places


def _main_stack(top: ConfigSection) -> TransformerConfig:
    """Read the sizes of the language model."""
    width, num_heads = top.integer("hidden_size"), _bounded(top, "num_attention_heads")
    num_kv_heads = _bounded(top, "num_key_value_heads", num_heads)
    if num_heads % num_kv_heads:
        raise top.error("num_key_value_heads", f"must divide {num_heads}")
    usual = {"head_dim": width // num_heads, "norm_eps": 1e-6, "max_positions": MAX_POSITIONS}
    return top.build(
        TransformerConfig,
        TRANSFORMER_KEYS,
        usual,
        num_kv_heads=num_kv_heads,
        rope_theta=top.rope().number("rope_theta"),
    )


def _local_stack(
    top: ConfigSection, key: str, width: int, inner: int, num_layers: int, num_positions: int
) -> TransformerConfig:
    """Return the sizes of a local transformer; all but its widths are the language model's."""
    num_heads = _bounded(top, _LOCAL_HEADS, 64)
    if width % (2 * num_heads):
        raise top.error(key, f"must be a multiple of twice '{_LOCAL_HEADS}', {num_heads}")
    return TransformerConfig(
        hidden_size=width,
        intermediate_size=inner,
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=num_heads,
        head_dim=width // num_heads,
        norm_eps=top.number("rms_norm_eps", 1e-6),
        rope_theta=top.rope().number("rope_theta"),
        max_positions=num_positions,
    )


def _expect_known(top: ConfigSection) -> None:
    """Refuse an unsupported kind of audio tokenizer."""
    for key, value in (
        ("activation_function", "gelu"),
        ("position_embedding_type", "rope"),
        ("rope_type", "default"),
        ("ln_type", "LayerNorm"),
        ("vocoder_padding", "same"),
        ("decoder_causal", True),
        ("use_istft_only", False),
        ("hybrid_attention", False),
    ):
        top.expect(key, value, default=value)
    stride, hop = _bounded(top, "decoder_stride_size", 2), _bounded(top, "hop_length", 240)
    _bounded(top, "avg_pooler", 1)
    fft_size = top.integer("nfft", 1024)
    if top.integer("window_size", 1024) != fft_size:
        raise top.error("window_size", f"must be 'nfft', {fft_size}")
    if fft_size % hop or (fft_size - hop) % 2:
        raise top.error("hop_length", f"must divide 'nfft', {fft_size}, and leave an even rest")
    if top.integer("decoder_kernel_size", 3) < stride:
        raise top.error("decoder_kernel_size", f"must be 'decoder_stride_size' or more, {stride}")


def _code_sizes(top: ConfigSection, model: MiMoAudioConfig) -> tuple[int, ...]:
    """Read the code counts of all quantizers; the last listed size also applies to the rest."""
    sizes = top.integers("codebook_size", (1024,))
    num_quantizers = _bounded(top, "num_quantizers", 12)
    sizes = (*sizes, *sizes[-1:] * num_quantizers)[:num_quantizers]
    wanted = tuple(size - 1 for size in model.code_sizes)
    if sizes[: model.num_channels] != wanted:
        begin = sizes[: model.num_channels]
        raise top.error("codebook_size", f"begins {begin}; the model's codes are {wanted}")
    return sizes


def _net(
    top: ConfigSection, part: str, width: str, layers: str, inner: str, window: tuple[int, int]
) -> NetConfig:
    """Read a stack of layers; causal ones have no look-ahead."""
    num_heads = _bounded(top, f"{part}attention_heads")
    hidden_size = top.integer(width)
    if hidden_size % (2 * num_heads):
        raise top.error(width, f"must be a multiple of twice '{part}attention_heads', {num_heads}")
    key = f"{part}attn_window_size"
    bounds = top.values.get(key) or window
    if len(bounds) != 2 or not all(isinstance(each, int) and each >= -1 for each in bounds):
        raise top.error(key, f"must be two whole numbers, -1 for no bound, but is {bounds!r}")
    left, right = (None if each == -1 else each for each in bounds)
    is_causal = top.boolean(f"{part}causal", part == "decoder_")
    return NetConfig(
        hidden_size=hidden_size,
        intermediate_size=top.integer(inner),
        num_layers=top.integer(layers),
        num_heads=num_heads,
        rope_theta=top.rope().number("rope_theta"),
        left=left,
        right=0 if is_causal else right,
    )


def _listed(top: ConfigSection, key: str, default: str, length: int) -> tuple[int, ...]:
    """Read integers in the form "0-1-2", or one integer for all."""
    value = top.values.get(key, default)
    parts = str(value).split("-")
    if not all(part.isdecimal() for part in parts):
        raise top.error(key, f"must be whole numbers with hyphens between, but is {value!r}")
    numbers = tuple(map(int, parts))
    numbers = numbers * length if len(numbers) == 1 else numbers
    if len(numbers) != length:
        raise top.error(key, f"must have {length} numbers, one for each audio channel")
    return numbers


def _bounded(
    top: ConfigSection, key: str, default: int | None = None, most: int | None = None
) -> int:
    """Read an integer of at least 1."""
    number = top.integer(key, default)
    if number < 1 or (most is not None and number > most):
        bound = "at least 1" if most is None else f"1 to {most}"
        raise top.error(key, f"must be {bound}, but is {number}")
    return number
