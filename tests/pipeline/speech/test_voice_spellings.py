"""Voices in Kokoro-FastAPI's spelling find what is there, and nothing else does."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import DataSettings, ModelSettings, ReferenceSettings, SpeechSettings
from antiphon.contracts.types import SpeechRequest
from antiphon.errors import UnknownVoiceError
from antiphon.pipeline.speech.model import SpeechModel, other_spellings
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.voice_service import VoiceService
from antiphon.voices.recordings import Recordings
from antiphon.voices.store import NewVoice
from tests.recordings import RECORDING

T = TypeVar("T")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (None, []),
        ("heart", []),
        ("af_heart", ["heart"]),
        ("AF_Heart", ["Heart"]),
        ("af_bella+af_sky", ["af_bella", "bella", "af_sky", "sky"]),
        ("af_bella(2)+af_sky(1.5)", ["af_bella", "bella", "af_sky", "sky"]),
        ("am_adam-bf_emma(0.5)", ["am_adam", "adam", "bf_emma", "emma"]),
        ("Carter-man", []),
        ("af_", []),
        ("heart(loud)", []),
        ("++", []),
        ("a+" * 1000, []),
    ],
)
def test_spellings(name: str | None, expected: list[str]) -> None:
    assert list(other_spellings(name)) == expected
    if name is not None and "+" in name:
        assert list(other_spellings(name, of_mixes=False)) == []


@given(st.text(st.sampled_from("af_m+-()12. "), max_size=30))
def test_no_spelling_is_empty_or_the_name_itself(name: str) -> None:
    assert all(each and each != name for each in other_spellings(name))


@asynccontextmanager
async def speaking(source: str, folder: Path | None) -> AsyncGenerator[Speech, None]:
    model = await SpeechModel.load(ModelSettings(source=source, device="cpu"))
    recordings = Recordings(ReferenceSettings())
    uploaded = VoiceService(DataSettings(dir=folder), recordings) if folder else None
    speech = Speech({model.name: model}, SpeechSettings(), uploaded=uploaded)
    try:
        yield speech
    finally:
        speech.close()
        if uploaded is not None:
            uploaded.close()
        recordings.close()
        await model.close()


async def cast(speech: Speech, name: str) -> str:
    _, voice = await speech.resolve_voice(SpeechRequest("Hi.", voice=name), speech.model(None))
    return voice.name


@pytest.mark.parametrize("stores", [False, True])
async def test_the_first_voice_of_a_mix_that_is_there_speaks(tmp_path: Path, stores: bool) -> None:
    async with speaking("toy", tmp_path if stores else None) as speech:
        for name in ("af_alto", "af_bella(2)+af_alto(1)", "am_adam-af_alto", "ALTO"):
            assert await cast(speech, name) == "Alto"
            async for _ in speech.stream(SpeechRequest("Hi.", voice=name)):
                pass
        assert await cast(speech, "af_onyx") == "Sine", "an alias of the default"
        for name in ("af_bella", "af_bella+af_sky", "alto(x)"):
            with pytest.raises(UnknownVoiceError):
                await cast(speech, name)
            with pytest.raises(UnknownVoiceError):
                async for _ in speech.stream(SpeechRequest("Hi.", voice=name)):
                    pass


async def test_the_exact_name_of_an_uploaded_voice_goes_first(
    tmp_path: Path, checkpoint: Callable[..., Path]
) -> None:
    async with speaking(str(checkpoint("tiny", "base")), tmp_path) as speech:
        assert speech.uploaded is not None
        model = speech.model(None)
        for name in ("af_alloy", "bella"):
            await speech.uploaded.add(NewVoice(name=name, content=RECORDING), model)
        assert await cast(speech, "AF_Alloy") == "af_alloy", "though 'alloy' is an alias"
        assert await cast(speech, "af_bella(2)+af_sky(1)") == "bella"
