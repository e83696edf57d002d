"""The networks that hear recordings: published as ONNX files, which a checkpoint may lack."""

from pathlib import Path

SPEAKER_NETWORK, TOKEN_NETWORK = "campplus.onnx", "speech_tokenizer_v3.onnx"


def has_voice_encoder(path: Path) -> bool:
    """Whether voices can be cloned with a checkpoint's directory."""
    return all((path / name).is_file() for name in (SPEAKER_NETWORK, TOKEN_NETWORK))
