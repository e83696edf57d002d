"""Files and sizes of a checkpoint, in the official layout or in that of the ONNX export."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import ModelLoadError
from antiphon.families.kit.readers.nested_lists import nested_integers

STYLE_SIZE = 256
"""Numbers of a style: the first half is the decoder's, the second the prosody's."""
PAD_ID = 0
MAX_PHONEMES = 510
"""The networks know 512 positions, the padding at both ends included."""
SAMPLE_RATE_HZ = 24_000
FRAME_SAMPLES = 600
"""Durations are whole numbers of frames of 25 ms."""

_NETWORKS = (  # the first one that is there
    *("model.onnx", "model_quantized.onnx", "model_q8f16.onnx", "model_uint8.onnx"),
    *("model_fp16.onnx", "model_uint8f16.onnx", "model_q4.onnx", "model_q4f16.onnx"),
)
_VOICE_NAME = re.compile(r"\w+")
_STYLE_BYTES = 4 * STYLE_SIZE
_BOPOMOFO = "ㄅ"


@dataclass(frozen=True, slots=True)
class KokoroCheckpoint:
    """Vocabulary and file paths of a checkpoint.

    Attributes:
        network: the ONNX export, if there is one.
    """

    path: Path
    vocabulary: Mapping[str, int]
    network: Path | None
    weights: Path | None
    voices: Mapping[str, Path]


def read_checkpoint(path: Path, *, is_dummy: bool = False) -> KokoroCheckpoint:
    """Look at a directory without reading weights; raises ModelLoadError."""
    weights = next(iter(sorted(path.glob("*.pth"))), None)
    found = KokoroCheckpoint(path, _vocabulary(path), _network(path), weights, _voices(path))
    if _BOPOMOFO in found.vocabulary:
        raise ModelLoadError(
            f"{path}: the phonemes of Kokoro v1.1-zh are not supported, v1.0's are."
        )
    if found.network is None and found.weights is None and not is_dummy:
        raise ModelLoadError(f"{path}: there is neither a *.pth nor an onnx/model.onnx.")
    if not found.voices:
        raise ModelLoadError(f"{path / 'voices'}: there is no voice, neither *.bin nor *.pt.")
    return found


def _vocabulary(path: Path) -> Mapping[str, int]:
    config = ConfigSection.read(path / "config.json")
    if "vocab" not in config.values:
        config = ConfigSection.read(path / "tokenizer.json").section("model")
    vocabulary = config.section("vocab")
    ids = {each: vocabulary.integer(each) for each in vocabulary.values}
    size = config.integer("n_token", 0)
    for phoneme, number in ids.items():
        if size and number >= size:
            raise vocabulary.error(phoneme, f"must be below 'n_token', {size}, but is {number}")
    return MappingProxyType(ids)


def _network(path: Path) -> Path | None:
    places = [*(path / "onnx" / name for name in _NETWORKS), *sorted(path.glob("*.onnx"))]
    return next((place for place in places if place.exists()), None)


def _voices(path: Path) -> Mapping[str, Path]:
    """Return the files of voices, preferring those without PyTorch; raises ModelLoadError."""
    files = [*(path / "voices").glob("*.pt"), *(path / "voices").glob("*.bin")]
    found = {file.stem: file for file in files}
    if unusable := next((each for each in found if not _VOICE_NAME.fullmatch(each)), None):
        raise ModelLoadError(
            f"{found[unusable]}: a voice's name has letters, digits and '_' only, since mixes are"
            " written with other signs. Rename the file."
        )
    for file in found.values():
        size = file.stat().st_size
        if size == 0 or (file.suffix == ".bin" and size % _STYLE_BYTES):
            raise ModelLoadError(f"{file}: is no table of styles of {STYLE_SIZE} numbers.")
    return MappingProxyType({name: found[name] for name in sorted(found)})


@dataclass(frozen=True, slots=True, kw_only=True)
class KokoroConfig:
    """Sizes; those of the decoder's layers that no published file states are the weights' own.

    Attributes:
        hidden_dim: channels of the text and prosody parts.
        style_dim: numbers of half a style.
        n_layer: convolutions of the text encoder, and recurrent layers of the duration encoder.
        max_dur: most frames of a phoneme.
        num_heads: attention heads of the phoneme BERT.
        num_positions: most phonemes, with padding.
        num_bert_layers: times that its one layer is applied.
        upsample_rates: strides of the vocoder's upsampling stages.
        upsample_channels: channels before the first stage; each stage halves them.
        kernel_sizes: kernel sizes of the residual blocks of a stage.
        dilations: dilations of the convolutions of each of these blocks.
        fft_size: size of the final inverse STFT, in samples, as is its hop.
        decoder_channels: channels of the blocks before the vocoder, and of the text that they
            receive, of weights that are drawn; others have their own, and published files none.
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
    decoder_channels: tuple[int, int]

    @property
    def frame_upsampling(self) -> int:
        """Samples for each value of the pitch curve, of which a frame has two."""
        return self.hop_size * math.prod(self.upsample_rates)


def load_config(path: Path) -> KokoroConfig:
    """Read a checkpoint's config.json; raises ModelLoadError."""
    top = ConfigSection.read(path / "config.json")
    decoder = top.section("decoder", {})
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
        dilations=nested_integers(vocoder, "resblock_dilation_sizes"),
        fft_size=vocoder.integer("gen_istft_n_fft"),
        hop_size=vocoder.integer("gen_istft_hop_size"),
        decoder_channels=(decoder.integer("channels", 1024), decoder.integer("text_channels", 64)),
    )
