"""The page speaks as a recording does, and sends its text word by word."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("selenium", reason="selenium is not installed")

from selenium.webdriver.common.keys import Keys

from antiphon.config import ModelSettings, ServerSettings, Settings
from tests.recordings import wav
from tests.servers import RunningServer, server_of, start_server, wait_until
from tests.web.conftest import API_KEY
from tests.web.page import Page

pytestmark = pytest.mark.browser

TEXT = "One two three. Four five six."


KEY = "sk-sesame"


locked = server_of(
    Settings(model=ModelSettings(source="toy"), server=ServerSettings(api_keys=(API_KEY, KEY)))
)
"""A server whose key a browser can send over a WebSocket."""


def use_key(page: Page, key: str) -> None:
    page.speak("A")
    page.wait_for("failed")
    page.find("key").clear()
    page.find("key").send_keys(key, Keys.ENTER)


def test_a_key_that_cannot_be_sent_is_told(page: Page, locked: RunningServer) -> None:
    page.open(locked.base_url)
    use_key(page, API_KEY)
    page.script("document.getElementById('word-by-word').checked = true")
    page.speak(TEXT)
    page.wait_for("failed")
    assert "characters" in page.text("alert")


@pytest.mark.slow  # two texts are spoken word by word in a browser
def test_words_go_one_by_one_with_the_key(page: Page, locked: RunningServer) -> None:
    page.open(locked.base_url)
    use_key(page, KEY)
    page.script("document.getElementById('word-by-word').checked = true")
    page.speak(TEXT)
    page.wait_for("finished", "broken", "failed")
    assert page.state == "finished"
    assert page.utterance("playedSamples") == page.utterance("receivedSamples") > 0
    page.speak("One more word. " * 60)  # stopped while words are still on their way
    page.wait_for("playing")
    page.find("stop").click()
    assert page.state == "stopped"
    wait_until(lambda: locked.num_open == 0)


@pytest.mark.slow  # a model in PyTorch
def test_a_recording_gives_the_voice(
    page: Page, checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    recording = tmp_path / "voice.wav"
    recording.write_bytes(wav())
    source = str(checkpoint("tiny", "base"))
    with start_server(Settings(model=ModelSettings(source=source, device="cpu"))) as running:
        page.open(running.base_url)
        assert page.find("reference-field").is_displayed()
        page.find("reference").send_keys(str(recording))
        page.wait_until(lambda: "KiB" in page.text("reference-hint"))
        page.speak("Hi.")
        page.wait_for("finished", "broken", "failed")
        assert page.state == "finished", page.utterance("failure")
