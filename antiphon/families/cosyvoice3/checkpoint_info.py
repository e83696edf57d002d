"""Identifies a checkpoint by its configuration and the names in its files."""

from pathlib import Path

from antiphon.contracts.inspection import Inspection, Table
from antiphon.errors import ModelLoadError
from antiphon.families.cosyvoice3 import checkpoint_schema as schema
from antiphon.families.cosyvoice3.config import TEXT_FOLDER, CosyVoice3Config, load_config
from antiphon.families.cosyvoice3.voice_encoder_files import has_voice_encoder
from antiphon.nn.safetensors_index import Shape, layout_problems


def inspect(path: Path) -> Inspection:
    """Return what a checkpoint's directory holds, complete or not."""
    try:
        config = load_config(path)
    except ModelLoadError as error:
        return Inspection(facts={"Model": "CosyVoice3"}, problems=(error.message,))
    rows, problems = [], []
    for name, layout in _parts(config).items():
        found, wrong = _component(path, name, layout)
        rows.append((name, *found))
        problems += wrong
    voices, wrong = _text(path, config)
    problems += wrong
    clones = has_voice_encoder(path)
    if not clones and not voices:
        problems.append(f"{path}: has neither voices nor the networks that hear recordings")
    sizes, flow = config.text, config.flow
    return Inspection(
        facts={
            "Model": "CosyVoice3",
            "Sample rate": f"{config.sample_rate_hz} Hz",
            "Language model": f"{sizes.num_layers} layers of width {sizes.hidden_size}",
            "Flow": f"{flow.num_layers} layers of width {flow.hidden_size}, 10 steps",
            "Chunk": f"{flow.chunk_tokens} tokens of 40 ms",
            "Speech tokens": config.num_tokens,
            "Voices": voices or ("of recordings only",),
            "Clones voices": "yes" if clones else "no",
        },
        tables=(Table(title="Files", columns=("file", "parameters", "bytes"), rows=tuple(rows)),),
        problems=tuple(problems),
    )


def _parts(config: CosyVoice3Config) -> dict[str, tuple[dict[str, Shape], str, str]]:
    """Return each file's layout, what is not read of it, and what its names may begin with."""
    return {
        schema.LANGUAGE_FILE: (schema.language_layout(config), schema.LANGUAGE_UNUSED, ""),
        schema.FLOW_FILE: (schema.flow_layout(config.flow), schema.FLOW_UNUSED, ""),
        schema.VOCODER_FILE: (
            schema.vocoder_layout(config.vocoder),
            schema.VOCODER_UNUSED,
            schema.VOCODER_PREFIX,
        ),
    }


def _component(
    path: Path, name: str, part: tuple[dict[str, Shape], str, str]
) -> tuple[tuple[int, int], list[str]]:
    """Return a file's numbers and bytes, and what is wrong with it; tensors stay on the disk."""
    from antiphon.families.cosyvoice3.weights import stored_tensors

    layout, unused, prefix = part
    try:
        tensors = stored_tensors(path / name, unused=unused, prefix=prefix)
    except ModelLoadError as error:
        return (0, 0), [error.message]
    found = {each: tuple(tensor.shape) for each, tensor in tensors.items()}
    problems = [f"{path / name}: tensors {each}" for each in layout_problems(found, layout)]
    numbers = sum(tensor.numel() for tensor in tensors.values())
    return (numbers, (path / name).stat().st_size), problems


def _text(path: Path, config: CosyVoice3Config) -> tuple[tuple[str, ...], list[str]]:
    """Return the voices that the directory has, and what is wrong with text and voices."""
    from antiphon.families.cosyvoice3.tokenizer import load_tokenizer
    from antiphon.families.cosyvoice3.voices import load_voices

    problems: list[str] = []
    voices: tuple[str, ...] = ()
    try:
        load_tokenizer(path / TEXT_FOLDER)
        voices = tuple(load_voices(path, config))
    except ModelLoadError as error:
        problems.append(error.message)
    return voices, problems
