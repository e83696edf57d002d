"""A recording to be cloned, for measurements: a file's, or one that the default voice speaks."""

import asyncio
import base64
import io
import wave
from contextlib import aclosing
from pathlib import Path

import numpy as np

from antiphon.config import ModelSettings, SpeechSettings
from antiphon.contracts.types import AudioChunk, SpeechRequest
from antiphon.errors import SettingsError
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.service import Speech

TEXT = "The kettle is on, the bread is almost done, and somebody is knocking at the door."


def reference_values(file: Path | None, text: str | None) -> dict[str, str]:
    """Return the members of a request that clones: ``ref_audio`` as a data URL, and ``ref_text``.

    Args:
        file: WAV file; ``None``: the default voice speaks `TEXT`.
        text: transcript of the file.

    Raises:
        SettingsError: the file cannot be read, or comes without its text.
    """
    if file is None:
        return {"ref_audio": _data_url(asyncio.run(_spoken())), "ref_text": TEXT}
    if text is None:
        raise SettingsError("--ref-audio needs --ref-text: what the recording says.")
    try:
        return {"ref_audio": _data_url(file.read_bytes()), "ref_text": text}
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read: {error}") from error


async def _spoken() -> bytes:
    model = await SpeechModel.load(ModelSettings(device="cpu"))
    speech = Speech({model.name: model}, SpeechSettings())
    pieces, rate_hz = [], 0
    try:
        async with aclosing(speech.stream(SpeechRequest(TEXT, seed=1))) as stream:
            async for item in stream:
                if isinstance(item, AudioChunk):
                    pieces.append(item.samples)
                    rate_hz = item.sample_rate_hz
    finally:
        speech.close()
        await model.close()
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(rate_hz)
        wav.writeframes(np.round(np.concatenate(pieces) * 32767).astype("<i2").tobytes())
    return file.getvalue()


def _data_url(data: bytes) -> str:
    return f"data:audio/wav;base64,{base64.b64encode(data).decode()}"
