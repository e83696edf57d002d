"""Configuration of a Qwen3-TTS checkpoint, read once into frozen dataclasses.

Defaults are those of the official classes.

    Qwen3TTSConfig                  config.json, generation_config.json
    ├── talker: TalkerConfig        the language model over codec frames
    │   ├── transformer: TransformerConfig
    │   └── tokens: CodecTokens     special ids of group 0
    ├── predictor: PredictorConfig  the small model inside a frame (groups 1 to 15)
    │   └── transformer: TransformerConfig
    ├── speaker_encoder: EcapaConfig | None     (base checkpoints only)
    ├── codec: CodecConfig          speech_tokenizer/config.json
    │   ├── decoder: CodecDecoderConfig
    │   └── encoder: CodecEncoderConfig
    ├── tokens: TextTokens          special ids of the text vocabulary
    └── generation: GenerationDefaults

`antiphon.families.qwen3_tts.config_reader.load_config` reads it from a directory.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from antiphon.nn.layer_configs import EcapaConfig, TransformerConfig

CODEC_DIRECTORY = "speech_tokenizer"
DOWNSAMPLE_STRIDE = 2
"""Stride between the codec encoder's transformer and its quantizers, fixed by Mimi."""
MIN_FRAMES = 2
"""The official code forbids end of speech for the first two group-0 tokens."""
NUM_SUPPRESSED_IDS = 1024
"""The last ids of group 0, all but end of speech, are never sampled."""


class CheckpointTask(StrEnum):
    """What a checkpoint was trained for; values of ``tts_model_type``."""

    CUSTOM_VOICE = "custom_voice"  # built-in speakers
    VOICE_DESIGN = "voice_design"  # a voice from a description
    BASE = "base"  # a voice from a recording


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecTokens:
    """Special ids of the talker's vocabulary, all above the codec's own codes."""

    pad: int
    bos: int
    eos: int
    think: int
    nothink: int
    think_bos: int
    think_eos: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTokens:
    """Special ids of the text vocabulary."""

    im_start: int = 151644
    im_end: int = 151645
    tts_pad: int = 151671
    tts_bos: int = 151672
    tts_eos: int = 151673


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkerConfig:
    """Language model of group 0 of each frame.

    Attributes:
        vocab_size: size of group 0: codec codes, then speakers, languages and special ids.
        num_groups: codes per frame, group 0 included.
        text_hidden_size: width of the text embedding, before its projection.
    """

    transformer: TransformerConfig
    tokens: CodecTokens
    vocab_size: int
    num_groups: int
    text_vocab_size: int
    text_hidden_size: int

    @property
    def first_suppressed_id(self) -> int:
        """Ids from here on are never sampled, except end of speech."""
        return self.vocab_size - NUM_SUPPRESSED_IDS


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorConfig:
    """Code predictor of groups 1 to ``num_groups - 1``.

    Attributes:
        vocab_size: codes of each group.
        embedding_size: width of its embedding tables, equal to the talker's.
    """

    transformer: TransformerConfig
    vocab_size: int
    num_groups: int
    embedding_size: int

    @property
    def has_projection(self) -> bool:
        """Whether ``small_to_mtp_projection`` maps the talker's width to the predictor's."""
        return self.embedding_size != self.transformer.hidden_size


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecDecoderConfig:
    """Sizes of the codec decoder: codes to waveform.

    Attributes:
        latent_dim: width around the transformer and of the upsampling blocks.
        codebook_dim: width of the quantizer's output; its tables are half as wide.
        decoder_dim: width at the start of the convolutional decoder, halved by every block.
        upsampling_ratios: ratios of the two blocks before the convolutional decoder.
        upsample_rates: rates of the convolutional decoder's blocks.
    """

    transformer: TransformerConfig
    codebook_size: int = 2048
    codebook_dim: int
    num_quantizers: int = 16
    latent_dim: int = 1024
    decoder_dim: int = 1536
    upsampling_ratios: tuple[int, ...] = (2, 2)
    upsample_rates: tuple[int, ...] = (8, 5, 4, 3)

    @property
    def samples_per_frame(self) -> int:
        return math.prod(self.upsampling_ratios) * math.prod(self.upsample_rates)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecEncoderConfig:
    """Sizes of the codec encoder, the encoder half of Mimi: waveform to codes.

    Attributes:
        ratios: ratios in the order of Mimi's configuration; the encoder applies them reversed.
        codebook_dim: width of a code's vector.
        num_quantizers: quantizers in the checkpoint; the first `CodecConfig.num_quantizers` are
            used.
    """

    transformer: TransformerConfig
    hidden_size: int = 512
    num_filters: int = 64
    num_residual_layers: int = 1
    ratios: tuple[int, ...] = (8, 6, 5, 4)
    kernel_size: int = 7
    last_kernel_size: int = 3
    residual_kernel_size: int = 3
    dilation_growth_rate: int = 2
    compress: int = 2
    codebook_size: int = 2048
    codebook_dim: int = 256
    num_quantizers: int = 32
    num_semantic_quantizers: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecConfig:
    """Configuration of the 12.5 Hz codec.

    Attributes:
        encoder: its sizes; ``None`` by a null in the file, in a checkpoint that clones nothing.
    """

    decoder: CodecDecoderConfig
    encoder: CodecEncoderConfig | None
    num_quantizers: int
    sample_rate_hz: int

    @property
    def samples_per_frame(self) -> int:
        return self.decoder.samples_per_frame


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationDefaults:
    """Default sampling of the checkpoint; ``predictor_`` is the loop inside a frame."""

    do_sample: bool = True
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05
    predictor_do_sample: bool = True
    predictor_temperature: float = 0.9
    predictor_top_k: int = 50
    predictor_top_p: float = 1.0
    max_new_tokens: int = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Qwen3TTSConfig:
    """Configuration of a whole checkpoint.

    Attributes:
        model_size: ``"1b7"`` or ``"0b6"``.
        speaker_encoder: its sizes, of base checkpoints only.
        languages: language ids by name in lower case, dialects included.
        speakers: group-0 id of every built-in speaker, by name in lower case.
        dialects: language name of a speaker's dialect, for speakers with one.
        words_only: whether it was taught no numbers and signs; published checkpoints were.
    """

    model_size: str
    task: CheckpointTask
    talker: TalkerConfig
    predictor: PredictorConfig
    speaker_encoder: EcapaConfig | None
    codec: CodecConfig
    tokens: TextTokens
    generation: GenerationDefaults
    languages: Mapping[str, int]
    speakers: Mapping[str, int]
    dialects: Mapping[str, str]
    words_only: bool = False

    @property
    def selectable_languages(self) -> tuple[str, ...]:
        """Languages that a request may name; dialects follow from the speaker."""
        return tuple(name for name in self.languages if "dialect" not in name)

    @property
    def takes_instructions(self) -> bool:
        """Whether a prompt may begin with instructions."""
        if self.task is CheckpointTask.CUSTOM_VOICE:
            return self.model_size != "0b6"
        return self.task is CheckpointTask.VOICE_DESIGN
