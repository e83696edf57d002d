"""ONNX files of the voice encoders, which are optional in a checkpoint."""

from pathlib import Path

SPEAKER_NETWORK, TOKEN_NETWORK = "campplus.onnx", "speech_tokenizer_v3.onnx"


def has_voice_encoder(path: Path) -> bool:
    """Return whether a checkpoint's directory supports voice cloning."""
    return all((path / name).is_file() for name in (SPEAKER_NETWORK, TOKEN_NETWORK))
