"""ElevenLabs' own SDK speaks with the server: speech, times, voices, dialogues, and its stream."""

import base64
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.config import DataSettings, ModelSettings, ServerSettings, Settings
from tests.recordings import RECORDING
from tests.servers import RunningServer, server_of, start_server

elevenlabs = pytest.importorskip("elevenlabs", reason="needs the extra 'clients'")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]

KEY = "sk-test"
VOICE = "JBFqnCBsd6RMkjVDRZzb"
TEXT = "One two three. It costs $5, my friend."
INPUTS = [{"text": "One two.", "voice_id": "heart"}, {"text": "Three.", "voice_id": VOICE}]
PCM = {"output_format": "pcm_24000"}


hibari = server_of(
    Settings(model=ModelSettings(source="hibari"), server=ServerSettings(api_keys=(KEY,)))
)


@pytest.fixture(scope="module")
def sdk(hibari: RunningServer) -> Generator[Any, None, None]:
    with connected_sdk(hibari) as made:
        yield made


@contextmanager
def connected_sdk(server: RunningServer, key: str = KEY) -> Generator[Any, None, None]:
    with httpx.Client(timeout=60) as client:  # the SDK's own is never closed
        yield elevenlabs.ElevenLabs(base_url=server.base_url, api_key=key, httpx_client=client)


def duration_s(audio: bytes) -> float:
    return len(audio) / 48_000


def test_it_speaks_at_once_and_as_a_stream(sdk: Any) -> None:
    settings = elevenlabs.VoiceSettings(speed=2.0, stability=0.5)
    for speak in (sdk.text_to_speech.convert, sdk.text_to_speech.stream):
        plain = b"".join(speak(VOICE, text=TEXT, model_id="eleven_flash_v2_5", seed=1, **PCM))
        fast = b"".join(speak(VOICE, text=TEXT, voice_settings=settings, seed=1, **PCM))
        assert duration_s(plain) > 2
        assert duration_s(fast) == pytest.approx(duration_s(plain) / 2, abs=0.05)
        assert b"".join(speak(VOICE, text=TEXT))


def test_it_reads_when_characters_are_spoken(sdk: Any) -> None:
    whole = sdk.text_to_speech.convert_with_timestamps(VOICE, text=TEXT, seed=1, **PCM)
    audio_s = duration_s(base64.b64decode(whole.audio_base_64))
    assert "".join(whole.alignment.characters) == TEXT
    assert whole.alignment.character_end_times_seconds[-1] <= audio_s
    assert "".join(whole.normalized_alignment.characters).startswith("One two three.")
    chunks = list(sdk.text_to_speech.stream_with_timestamps(VOICE, text=TEXT, seed=1, **PCM))
    found = [each.alignment for each in chunks if each.alignment]
    assert [c for each in found for c in each.characters] == whole.alignment.characters
    starts = [time for each in found for time in each.character_start_times_seconds]
    assert starts == whole.alignment.character_start_times_seconds


def test_it_speaks_dialogues(sdk: Any) -> None:
    dialogue = sdk.text_to_dialogue
    audio = b"".join(dialogue.convert(inputs=INPUTS, **PCM))
    assert duration_s(audio) > 1
    assert b"".join(dialogue.stream(inputs=INPUTS))
    whole = dialogue.convert_with_timestamps(inputs=INPUTS, **PCM)
    assert [each.voice_id for each in whole.voice_segments] == ["heart", VOICE]
    assert "".join(whole.alignment.characters) == "One two. Three."
    chunks = list(dialogue.stream_with_timestamps(inputs=INPUTS, **PCM))
    segments = [segment for each in chunks for segment in each.voice_segments]
    assert [each.dialogue_input_index for each in segments] == [0, 1]


def test_it_lists_what_there_is(sdk: Any) -> None:
    assert [each.voice_id for each in sdk.voices.search(search="hea").voices] == ["heart"]
    assert sdk.voices.get_all().voices[0].voice_id == "heart"
    assert sdk.voices.get("heart").category == "premade"
    assert sdk.voices.settings.get("heart").speed == 1.0
    assert sdk.voices.settings.get_default().speed == 1.0
    (model,) = sdk.models.list()
    assert (model.model_id, model.can_do_text_to_speech) == ("hibari", True)
    assert model.languages
    assert sdk.user.get().subscription == sdk.user.get().subscription
    assert not sdk.user.subscription.get().can_use_instant_voice_cloning


def test_it_reads_errors(sdk: Any, hibari: RunningServer) -> None:
    with connected_sdk(hibari, "wrong") as stranger:
        for status, code, ask in [
            (404, "voice_not_found", lambda: sdk.voices.get("nobody")),
            (404, "voice_not_found", lambda: b"".join(sdk.text_to_speech.convert("x", text="Hi."))),
            (400, "invalid_value", lambda: b"".join(sdk.text_to_speech.convert(VOICE, text=" "))),
            (400, "voice_not_supported", lambda: added(sdk, "Ann")),
            (401, "invalid_api_key", stranger.user.get),
        ]:
            with pytest.raises(elevenlabs.core.ApiError) as error:
                ask()
            assert error.value.status_code == status
            assert error.value.body["detail"]["status"] == code


def test_its_stream_takes_text_in_pieces(sdk: Any, hibari: RunningServer) -> None:
    speech = sdk.text_to_speech
    speech._ws_base_url = f"ws://127.0.0.1:{hibari.port}"  # it makes wss of http
    pieces = speech.convert_realtime(VOICE, text=iter(["One two three. ", "Four."]), **PCM)
    assert duration_s(b"".join(pieces)) > 1


async def test_its_asynchronous_client_streams(hibari: RunningServer) -> None:
    async with httpx.AsyncClient(timeout=60) as client:
        sdk = elevenlabs.AsyncElevenLabs(base_url=hibari.base_url, api_key=KEY, httpx_client=client)
        found = b"".join([each async for each in sdk.text_to_speech.stream(VOICE, text=TEXT)])
    assert found


def added(sdk: Any, name: str) -> Any:
    return sdk.voices.ivc.create(name=name, files=[("a.wav", RECORDING, "audio/wav")])


@pytest.mark.slow  # the SDK takes five seconds to import its voices; the adapter's tests have them
def test_it_adds_a_voice_and_speaks_with_it(
    checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    settings = Settings(
        model=ModelSettings(source=str(checkpoint("tiny", "base")), device="cpu"),
        server=ServerSettings(api_keys=(KEY,)),
        data=DataSettings(dir=tmp_path),
    )
    with start_server(settings) as running, connected_sdk(running) as sdk:
        voice = added(sdk, "Ann")
        assert not voice.requires_verification
        assert b"".join(sdk.text_to_speech.convert(voice.voice_id, text="Hi."))
        assert sdk.voices.update(voice.voice_id, name="Anna", description="kind").status == "ok"
        told = sdk.voices.get(voice.voice_id)
        assert (told.name, told.description, told.is_owner) == ("Anna", "kind", True)
        names = [each.name for each in sdk.voices.search(voice_type="personal").voices]
        assert names == ["Anna"]
        assert sdk.voices.delete(voice.voice_id).status == "ok"
        assert sdk.voices.search(voice_type="personal").voices == []
