"""Configuration of a checkpoint and of its audio tokenizer, a separate repository."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError
from antiphon.families.kit.readers.transformer import transformer_sizes
from antiphon.nn.layer_configs import TransformerConfig

MAX_POSITIONS: Final = 8192
"""Groups per request, prompt and speech together; a group is 160 ms or a text token."""

PASS_GROUPS: Final = 4
"""Groups per pass of the tokenizer's decoder, which takes hardly longer than one group."""
TOKENIZER_NAME: Final = "MiMo-Audio-Tokenizer"

_STREAMED_S = 10.0  # look-back of the tokenizer's decoder, as in official streaming
_NORM_GROUPS = 6  # look-ahead of a norm over time
_LOCAL_HEADS = "local_attn_heads"
_LAYER_KEYS = ("d_model", "{}layers", "{}ffn_dim")
_VOCODER_KEYS = ("{}dim", "{}num_layers", "{}intermediate_dim")
_TOKENIZER_KEYS = {
    "encoder_skip": "encoder_skip_layer_id",
    "stride": "stride_size",
    "pooling": "avg_pooler",
    "decoder_stride": "decoder_stride_size",
    "num_mels": "n_mels",
    "fft_size": "nfft",
    "hop_samples": "hop_length",
    "sample_rate_hz": "sampling_rate",
    "min_hz": "fmin",
    "max_hz": "fmax",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MiMoAudioConfig:
    """Configuration of the language model over groups, and of its local transformers.

    Attributes:
        decoder: patch decoder, which generates the codes of a group.
        code_sizes: codes of each channel, including the empty one.
        empty_codes: code of each channel without audio.
        delays: delay of each channel in steps of the patch decoder.
    """

    transformer: TransformerConfig
    decoder: TransformerConfig
    encoder: TransformerConfig
    vocab_size: int
    group_frames: int
    code_sizes: tuple[int, ...]
    empty_codes: tuple[int, ...]
    delays: tuple[int, ...]

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
        left: attention window before a position, in layers after the codes.
        right: attention window after a position, in layers after the codes.
    """

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    rope_theta: float
    left: int = 0
    right: int = 0

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_heads


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioTokenizerConfig:
    """Configuration of MiMo-Audio-Tokenizer, which converts audio to codes and back.

    Attributes:
        vocoder: layers between mel spectrogram and waveform.
        encoder_skip: layer whose output is added to the last one's; 0: none.
        kernel_size: kernel size of the encoder's convolutions.
        stride: stride of the encoder's second convolution.
        pooling: positions per frame, before and after the layers.
        decoder_kernel_size: kernel size of the transposed convolution to mel frames.
        decoder_stride: mel frames per position.
        num_codes_used: number of quantizers used by the language model.
        norm_groups: look-ahead of norms, see `TimeNorm.num_ahead`.
    """

    encoder: NetConfig
    decoder: NetConfig
    vocoder: NetConfig
    code_sizes: tuple[int, ...]
    num_codes_used: int
    group_frames: int
    encoder_skip: int = 0
    kernel_size: int = 3
    stride: int = 2
    pooling: int
    decoder_kernel_size: int = 3
    decoder_stride: int = 2
    num_mels: int = 80
    fft_size: int = 1024
    hop_samples: int = 240
    sample_rate_hz: int = 24000
    min_hz: float = 0.0
    max_hz: float
    norm_groups: int

    @property
    def group_positions(self) -> int:
        """Positions of the decoder's layers per group."""
        return self.group_frames * self.pooling

    @property
    def group_mels(self) -> int:
        return self.group_positions * self.decoder_stride

    @property
    def samples_per_group(self) -> int:
        return self.group_mels * self.hop_samples


def load_config(path: Path) -> MiMoAudioConfig:
    """Read config.json of a checkpoint's directory; raises ModelLoadError."""
    top = ConfigSection.read(path / "config.json", unpacks=True)
    top.expect("hidden_act", "silu", default="silu")
    top.expect("tie_word_embeddings", False, default=False)
    top.expect("use_sliding_window", False, default=False)
    top.expect("input_full_attention", True, default=False)
    top.rope().expect("rope_type", "default")
    num_channels = _bounded(top, "audio_channels", 8, 32)
    group_frames = _bounded(top, "group_size", 4, 16)
    sizes = _listed(top, "speech_vocab_size", "1025-1025-129-129-129-129-129-129", num_channels)
    empty = _listed(top, "speech_zeroemb_idx", "1024-1024-128-128-128-128-128-128", num_channels)
    if any(code >= size for code, size in zip(empty, sizes, strict=True)):
        raise top.error("speech_zeroemb_idx", "names codes that 'speech_vocab_size' has not")
    delays = _listed(top, "delay_pattern", "0-1-2-3-4-5-6-7", num_channels)
    if any(later - each > group_frames for each, later in pairwise(sorted((0, *delays)))):
        raise top.error("delay_pattern", "leaves steps without a code")
    usual = {"norm_eps": 1e-6, "max_positions": MAX_POSITIONS}
    main = transformer_sizes(top, defaults=usual, rope_theta=top.rope().number("rope_theta"))
    width, num_heads = top.integer("local_dim", 1024), _bounded(top, _LOCAL_HEADS, 64)
    read_width = top.integer("input_local_dim", width)
    for key, size in (("local_dim", width), ("input_local_dim", read_width)):
        if size % (2 * num_heads):
            raise top.error(key, f"must be a multiple of twice '{_LOCAL_HEADS}', {num_heads}")
    decoder = replace(
        main,
        hidden_size=width,
        intermediate_size=top.integer("local_ffn_dim", 4096),
        num_layers=top.integer("local_layers", 16),
        num_heads=num_heads,
        num_kv_heads=num_heads,
        head_dim=width // num_heads,
        max_positions=group_frames + max(delays),
    )
    encoder = replace(
        decoder,
        hidden_size=read_width,
        intermediate_size=4 * read_width,
        num_layers=top.integer("input_local_layers", 6),
        head_dim=read_width // num_heads,
        max_positions=group_frames,
    )
    return MiMoAudioConfig(
        transformer=main,
        decoder=decoder,
        encoder=encoder,
        vocab_size=top.integer("vocab_size"),
        group_frames=group_frames,
        code_sizes=sizes,
        empty_codes=empty,
        delays=delays,
    )


def load_tokenizer_config(path: Path, model: MiMoAudioConfig) -> AudioTokenizerConfig:
    """Read config.json of an audio tokenizer's directory; raises ModelLoadError."""
    top = ConfigSection.read(path / "config.json")
    _expect_known(top)
    stride, hop = top.integer("decoder_stride_size", 2), top.integer("hop_length", 240)
    rate_hz = top.integer("sampling_rate", 24000)
    streamed = round(_STREAMED_S * rate_hz / (hop * stride)) - 1
    bounds = top.values.get("vocoder_attn_window_size") or (40, 10)
    if len(bounds) != 2 or not all(isinstance(each, int) and each >= 0 for each in bounds):
        message = "must be two bounds: it is decoded as a stream"
        raise top.error("vocoder_attn_window_size", message)
    return top.build(
        AudioTokenizerConfig,
        _TOKENIZER_KEYS,
        {"max_hz": rate_hz / 2},
        encoder=_net(top, "encoder_", _LAYER_KEYS),
        decoder=_net(top, "decoder_", _LAYER_KEYS, streamed),
        vocoder=_net(top, "vocoder_", _VOCODER_KEYS, *bounds),
        code_sizes=_code_sizes(top, model),
        num_codes_used=model.num_channels,
        group_frames=model.group_frames,
        norm_groups=_NORM_GROUPS,
    )


def tokenizer_path(path: Path) -> Path:
    """Return the directory of a checkpoint's audio tokenizer; raises ModelLoadError.

    The checkpoint's directory, its parent and the hub's cache around it are searched.
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


def _expect_known(top: ConfigSection) -> None:
    for key, value in (
        ("activation_function", "gelu"),
        ("position_embedding_type", "rope"),
        ("rope_type", "default"),
        ("ln_type", "LayerNorm"),
        ("vocoder_padding", "same"),
        ("encoder_attn_window_size", [-1, -1]),
        ("decoder_attn_window_size", [-1, -1]),
        ("encoder_causal", False),
        ("decoder_causal", True),
        ("vocoder_causal", False),
        ("use_istft_only", False),
        ("hybrid_attention", False),
    ):
        top.expect(key, value, default=value)
    stride, hop = _bounded(top, "decoder_stride_size", 2), _bounded(top, "hop_length", 240)
    if top.integer("avg_pooler", 1) < 2:
        raise top.error("avg_pooler", "must be at least 2")
    fft_size = top.integer("nfft", 1024)
    if top.integer("window_size", 1024) != fft_size:
        raise top.error("window_size", f"must be 'nfft', {fft_size}")
    if fft_size % hop or (fft_size - hop) % 2:
        raise top.error("hop_length", f"must divide 'nfft', {fft_size}, and leave an even rest")
    if top.integer("decoder_kernel_size", 3) <= stride:
        raise top.error("decoder_kernel_size", f"must be above 'decoder_stride_size', {stride}")


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
    top: ConfigSection, part: str, names: Sequence[str], left: int = 0, right: int = 0
) -> NetConfig:
    """Read a stack of layers; ``names`` are keys of its width, its depth and its inner width."""
    width, depth, inner = (name.format(part) for name in names)
    num_heads = _bounded(top, f"{part}attention_heads")
    if top.integer(width) % (2 * num_heads):
        raise top.error(width, f"must be a multiple of twice '{part}attention_heads', {num_heads}")
    keys = {"hidden_size": width, "intermediate_size": inner, "num_layers": depth}
    theta = top.rope().number("rope_theta")
    return top.build(NetConfig, keys, num_heads=num_heads, rope_theta=theta, left=left, right=right)


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
