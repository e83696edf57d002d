"""Reader of a checkpoint's configuration, without running its code."""

from dataclasses import dataclass
from pathlib import Path

from antiphon.contracts.config_file import ConfigSection
from antiphon.contracts.inspection import Inspection
from antiphon.errors import ModelLoadError

CODEC_DIRECTORY = "audio_tokenizer"
PUBLISHED_CODEC = "MOSS-Audio-Tokenizer-Nano"
VOICES_DIRECTORY = "voices"
DEFAULT_VOICE = "default"
_MODEL_CLASS, _CODEC_CLASS = "AutoModelForCausalLM", "AutoModel"
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


@dataclass(frozen=True, slots=True)
class MossVoice:
    """A voice to imitate.

    Attributes:
        recording: audio file; ``None``: the model chooses a voice.
        transcript: transcript of the recording; ``None``: unknown.
    """

    recording: Path | None = None
    transcript: str | None = None


@dataclass(frozen=True, slots=True)
class MossCheckpoint:
    """A checkpoint in the official layout, and its codec.

    Attributes:
        codec_path: directory of the audio tokenizer, which is published separately.
        voices: voices by name; the first is the default.
    """

    path: Path
    codec_path: Path
    sample_rate_hz: int
    channels: int
    samples_per_frame: int
    voices: dict[str, MossVoice]


def read_checkpoint(path: Path) -> MossCheckpoint:
    """Read the configurations of the model and of its codec; raises ModelLoadError."""
    _check_code(path, _MODEL_CLASS)
    codec_path = _codec_path(path)
    codec = _check_code(codec_path, _CODEC_CLASS)
    channels = codec.integer("number_channels", 2)
    if channels not in (1, 2):
        raise codec.error("number_channels", f"must be 1 or 2, but is {channels}")
    return MossCheckpoint(
        path,
        codec_path,
        codec.integer("sampling_rate", 48000),
        channels,
        codec.integer("downsample_rate", 3840),
        _voices(path / VOICES_DIRECTORY),
    )


def inspect(path: Path) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not, without running code."""
    files = sorted(file.name for file in path.glob("*.py"))
    facts: dict[str, str | int | tuple[str, ...]] = {"Code of its own": tuple(files) or "none"}
    try:
        found = read_checkpoint(path)
    except ModelLoadError as error:
        return Inspection(facts=facts, problems=(error.message,))
    facts |= {
        "Needs the setting": "model.trust_remote_code",
        "Codec": str(found.codec_path),
        "Sample rate": f"{found.sample_rate_hz} Hz",
        "Channels": found.channels,
        "Voices": tuple(found.voices),
    }
    return Inspection(facts=facts)


def _check_code(path: Path, kind: str) -> ConfigSection:
    config = ConfigSection.read(path / "config.json")
    named = config.section("auto_map", {}).text(kind)
    if "--" in named:
        raise config.error(
            f"auto_map.{kind}", f"is '{named}', code of another repository; it must lie here"
        )
    module = path / f"{named.rpartition('.')[0]}.py"
    if not module.is_file():
        raise config.error(f"auto_map.{kind}", f"is '{named}', but there is no {module.name}")
    if not any(next(path.glob(pattern), None) for pattern in _WEIGHTS):
        raise ModelLoadError(f"{path}: there are no weights: {' or '.join(_WEIGHTS)}")
    return config


def _codec_path(path: Path) -> Path:
    for candidate in (path / CODEC_DIRECTORY, path.resolve().parent / PUBLISHED_CODEC):
        if candidate.is_dir():
            return candidate
    raise ModelLoadError(
        f"{path}: its codec is missing, which is published apart: put {PUBLISHED_CODEC} into"
        f" {path / CODEC_DIRECTORY}, or beside the model under its own name"
    )


def _voices(directory: Path) -> dict[str, MossVoice]:
    """Return a folder's recordings with transcripts from text files, or the default voice."""
    voices = {
        recording.stem: MossVoice(recording.resolve(), _transcript(recording.with_suffix(".txt")))
        for recording in sorted(directory.glob("*.wav"))
    }
    return voices or {DEFAULT_VOICE: MossVoice()}


def _transcript(file: Path) -> str | None:
    if not file.is_file():
        return None
    try:
        return file.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelLoadError(f"{file}: cannot be read as text in UTF-8: {error}") from error
