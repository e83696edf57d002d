"""Voices and consents through OpenAI's own SDK, against a running server with a key."""

from collections.abc import Callable, Generator
from pathlib import Path

import openai
import pytest
from openai.types.audio import Voice, VoiceConsent

from antiphon.config import ModelSettings, ServerSettings, Settings
from tests.recordings import RECORDING, wav
from tests.servers import start_server

KEY = "sk-test"


@pytest.fixture(scope="module")
def base_url(checkpoint: Callable[..., Path]) -> Generator[str, None, None]:
    settings = Settings(
        model=ModelSettings(source=str(checkpoint("tiny", "base")), device="cpu"),
        server=ServerSettings(api_keys=(KEY,)),
    )
    with start_server(settings) as running:
        yield f"{running.base_url}/v1"


@pytest.fixture
def client(base_url: str) -> Generator[openai.OpenAI, None, None]:
    with openai.OpenAI(base_url=base_url, api_key=KEY, max_retries=0) as client:
        yield client


def consent_of(client: openai.OpenAI, name: str) -> VoiceConsent:
    return client.audio.voice_consents.create(name=name, language="en-US", recording=RECORDING)


def test_a_voice_from_its_consent_to_its_end(client: openai.OpenAI, tmp_path: Path) -> None:
    (tmp_path / "ann.wav").write_bytes(RECORDING)
    consent = consent_of(client, "Ann agrees")
    voice = client.audio.voices.create(
        name="Ann", consent=consent.id, audio_sample=tmp_path / "ann.wav"
    )
    assert isinstance(voice, Voice)
    Voice.model_validate(voice.model_dump(), strict=True)
    assert (voice.name, voice.object, voice.type) == ("Ann", "audio.voice", "audio_sample")
    for name in ("Ann", {"id": voice.id}):
        audio = client.audio.speech.create(
            model="tts-1",
            voice=name,  # type: ignore[arg-type]
            input="Hello.",
            response_format="pcm",
            extra_body={"max_new_tokens": 6},
        )
        assert audio.content
    gone = client.audio.voices.delete(voice.id)
    assert (gone.id, gone.deleted, gone.object) == (voice.id, True, "audio.voice.deleted")
    with pytest.raises(openai.NotFoundError) as error:
        client.audio.voices.delete(voice.id)
    assert error.value.code == "voice_not_found"
    assert client.audio.voice_consents.retrieve(consent.id) == consent
    client.audio.voice_consents.delete(consent.id)


def test_consents_are_listed_page_by_page(client: openai.OpenAI) -> None:
    added = [consent_of(client, f"c{number}") for number in range(5)]
    listed = list(client.audio.voice_consents.list(limit=2))
    assert listed == added[::-1]
    for consent in listed:
        VoiceConsent.model_validate(consent.model_dump(), strict=True)
    renamed = client.audio.voice_consents.update(added[0].id, name="other")
    assert (renamed.id, renamed.name) == (added[0].id, "other")
    for consent in added:
        gone = client.audio.voice_consents.delete(consent.id)
        assert (gone.id, gone.deleted, gone.object) == (consent.id, True, "audio.voice_consent")
    assert list(client.audio.voice_consents.list()) == []
    with pytest.raises(openai.NotFoundError) as error:
        client.audio.voice_consents.retrieve(added[0].id)
    assert error.value.code == "consent_not_found"


def test_wrong_voices_are_bad_requests(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        client.audio.voices.create(name="Ann", consent="yes", audio_sample=wav(0.5))
    assert error.value.param == "audio_sample"
    with pytest.raises(openai.BadRequestError) as error:
        client.audio.voices.create(name="a/b", consent="yes", audio_sample=RECORDING)
    assert error.value.param == "name"
    with pytest.raises(openai.BadRequestError) as error:
        client.audio.voices.create(name="Ann", prompt="A calm voice.", type="prompt")
    assert error.value.param == "type"
    with pytest.raises(openai.BadRequestError) as error:
        client.audio.voice_consents.list(limit=101)
    assert error.value.param == "limit"
