"""Reader of the ``.onnx.json`` beside a voice's network (rate, phonemes, defaults); inspection."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from antiphon.contracts.config_file import ConfigSection
from antiphon.contracts.inspection import Inspection, Table
from antiphon.errors import ModelLoadError

PAD, BEGIN, END = "_", "^", "$"
"""Symbols of every voice: between phonemes, before the first one and after the last one."""
PHONEME_TYPES = ("espeak", "text")
_COLUMNS = ("Name", "Language", "Phonemes", "Rate (Hz)", "Speakers", "Size (MB)")
_SHOWN_SPEAKERS = 20


@dataclass(frozen=True, slots=True)
class InferenceScales:
    """Defaults of a request's options; see `PiperOptions`."""

    length_scale: float
    noise_scale: float
    noise_w: float


@dataclass(frozen=True, slots=True)
class PiperModel:
    """One network and its configuration.

    Attributes:
        name: stem of the files' names, such as ``"en_US-joe-medium"``.
        phoneme_type: ``"espeak"`` or ``"text"``: what its symbols stand for.
        espeak_voice: language and accent of its phonemes, as espeak-ng names them.
        language_code: code such as ``"en_US"``; ``""`` if the file has none.
        language_names: accepted names of its language, in lower case.
        speakers: numbers of its speakers by their names; empty if it has one.
    """

    name: str
    network: Path
    sample_rate_hz: int
    phoneme_type: str
    espeak_voice: str
    language_code: str
    language_names: tuple[str, ...]
    ids: Mapping[str, tuple[int, ...]]
    scales: InferenceScales
    speakers: Mapping[str, int]

    @property
    def voices(self) -> Mapping[str, int | None]:
        """Numbers of speakers by the ids of their voices; ``None`` where there is one."""
        return self.speakers or {self.name: None}


def read_models(directory: Path) -> tuple[PiperModel, ...]:
    """Read all voices of a directory, in the order of their names; raises ModelLoadError."""
    networks = sorted(directory.glob("*.onnx"))
    if not networks:
        raise ModelLoadError(f"{directory}: there is no voice: no file is named NAME.onnx")
    models = tuple(map(read_model, networks))
    rates = {model.sample_rate_hz for model in models}
    if len(rates) > 1:
        raise ModelLoadError(
            f"{directory}: voices of one directory must have one sample rate, but have"
            f" {', '.join(map(str, sorted(rates)))} Hz; give each rate a directory of its own"
        )
    names = [voice.lower() for model in models for voice in model.voices]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ModelLoadError(f"{directory}: several voices are named '{twice[0]}'")
    return models


def read_model(network: Path) -> PiperModel:
    """Read the configuration of a network; raises ModelLoadError."""
    config = ConfigSection.read(network.with_name(f"{network.name}.json"))
    config.expect("phoneme_type", *PHONEME_TYPES, default=PHONEME_TYPES[0])
    phoneme_type = config.text("phoneme_type", PHONEME_TYPES[0])
    if phoneme_type == "espeak":
        espeak_voice = config.section("espeak").text("voice")
    else:
        espeak_voice = config.section("espeak", {}).text("voice", "")
    language = config.section("language", {})
    code = language.text("code", "")
    names = (
        language.text("name_english", ""),
        *(name.replace("_", "-") for name in (language.text("family", ""), code, espeak_voice)),
    )
    rate = config.section("audio").integer("sample_rate")
    if not 8_000 <= rate <= 48_000:
        raise config.error("audio.sample_rate", f"must be 8000 to 48000, but is {rate}")
    return PiperModel(
        network.stem,
        network,
        rate,
        phoneme_type,
        espeak_voice,
        code,
        tuple(dict.fromkeys(name.lower() for name in names if name)),
        _read_ids(config),
        _read_scales(config.section("inference", {})),
        _read_speakers(config),
    )


def _read_ids(config: ConfigSection) -> Mapping[str, tuple[int, ...]]:
    section = config.section("phoneme_id_map")
    ids = {symbol: section.integers(symbol) for symbol in section.values}
    num_symbols = config.integer("num_symbols", 0)
    for symbol in (PAD, BEGIN, END):
        if not ids.get(symbol):
            raise section.error(symbol, "is missing")
    for symbol, each in ids.items():
        if any(number < 0 or (num_symbols and number >= num_symbols) for number in each):
            raise section.error(symbol, f"must be below 'num_symbols', {num_symbols}")
    return MappingProxyType(ids)


def _read_scales(section: ConfigSection) -> InferenceScales:
    length_scale = section.number("length_scale", 1.0)
    if length_scale <= 0:
        raise section.error("length_scale", f"must be above 0, but is {length_scale}")
    return InferenceScales(
        length_scale, section.number("noise_scale", 0.667), section.number("noise_w", 0.8)
    )


def _read_speakers(config: ConfigSection) -> Mapping[str, int]:
    num_speakers = config.integer("num_speakers", 1)
    section = config.section("speaker_id_map", {})
    speakers = {name: section.integer(name) for name in section.values}
    if num_speakers <= 1:
        return MappingProxyType({})
    speakers = speakers or {str(number): number for number in range(num_speakers)}
    for name, number in speakers.items():
        if number >= num_speakers:
            raise section.error(name, f"must be below 'num_speakers', {num_speakers}")
    return MappingProxyType(dict(sorted(speakers.items(), key=lambda each: each[1])))


def is_english(model: PiperModel) -> bool:
    """Whether a voice's phonemes are those of English."""
    return model.espeak_voice.lower().partition("-")[0] == "en"


def unread_language(model: PiperModel) -> str:
    """Return why a voice cannot be served, and what would help."""
    return (
        f"{model.network}.json: the voice reads phonemes of the language '{model.espeak_voice}'"
        " ('espeak.voice'); Antiphon has those of English only. Take an English voice, or one whose"
        " 'phoneme_type' is 'text'"
    )


def inspect(path: Path) -> Inspection:
    """Read the configuration beside each network."""
    models, problems = _models(path)
    for model in models:
        if model.phoneme_type == "espeak" and not is_english(model):
            problems.append(unread_language(model))
    voices = [name for model in models for name in model.voices]
    more = len(voices) - _SHOWN_SPEAKERS
    shown = (*voices[:_SHOWN_SPEAKERS], *([f"and {more} more"] if more > 0 else []))
    return Inspection(
        facts={
            "Architecture": "VITS",
            "Voices": shown,
            "Languages": tuple(dict.fromkeys(name for m in models for name in m.language_names)),
        },
        tables=(Table(title="Networks", columns=_COLUMNS, rows=tuple(map(_row, models))),),
        problems=tuple(problems),
    )


def _models(path: Path) -> tuple[list[PiperModel], list[str]]:
    """Return the networks that can be read, and why others, or all together, cannot be served."""
    models, problems = [], []
    for network in sorted(path.glob("*.onnx")):
        try:
            models.append(read_model(network))
        except ModelLoadError as error:
            problems.append(str(error))
    if not problems:
        try:
            read_models(path)
        except ModelLoadError as error:
            problems.append(str(error))
    return models, problems


def _row(model: PiperModel) -> tuple[str | int, ...]:
    return (
        model.name,
        model.language_code or model.espeak_voice,
        model.phoneme_type,
        model.sample_rate_hz,
        max(1, len(model.speakers)),
        round(model.network.stat().st_size / 1e6),
    )
