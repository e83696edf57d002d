"""The page's player and its history: what was heard is played and saved without the server."""

import io
import wave
from collections.abc import Generator
from contextlib import contextmanager

import httpx
import pytest

pytest.importorskip("selenium", reason="selenium is not installed")

from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.servers import RunningServer
from tests.web.page import Page

pytestmark = pytest.mark.browser

RATE_HZ = 24_000
TEXT = "A few words, as tones."


@contextmanager
def without_server(page: Page) -> Generator[None, None, None]:
    """Let no request of the page reach the API."""
    page.driver.execute_cdp_cmd("Network.enable", {})
    page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/v1/*"]})
    try:
        yield
    finally:
        page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})


def speak(page: Page, text: str) -> int:
    page.speak(text)
    page.wait_for("finished", "broken", "failed")
    assert page.state == "finished"
    return page.seed


def samples_of(file: bytes) -> bytes:
    with wave.open(io.BytesIO(file)) as reader:
        assert (reader.getframerate(), reader.getnchannels()) == (RATE_HZ, 1)
        frames: bytes = reader.readframes(reader.getnframes())
    return frames


def position_s(page: Page) -> float:
    return float(page.script("return document.getElementById('seek').valueAsNumber"))


def click_in_history(page: Page, label: str, number: int) -> None:
    found = page.driver.find_elements(By.CSS_SELECTOR, f"#history-list button[aria-label^={label}]")
    found[number].click()


def test_it_is_played_again_from_where_the_waveform_is_clicked(
    page: Page, server: RunningServer
) -> None:
    page.open(server.base_url)
    for id in ("numbers", "save", "history"):
        assert not page.find(id).is_displayed()
    assert not page.find("play").is_enabled()
    page.speak(TEXT * 4)
    page.wait_until(lambda: page.utterance("isComplete"))
    assert page.find("numbers").is_displayed()
    duration_s = page.utterance("receivedSamples") / RATE_HZ
    with without_server(page):
        ActionChains(page.driver).move_to_element(page.find("seek")).click().perform()
        page.wait_until(lambda: page.text("play") == "Pause")
        page.wait_until(lambda: position_s(page) > duration_s / 2)
        page.find("play").click()
        page.wait_until(lambda: page.text("play") == "Play")
        page.find("seek").send_keys(Keys.HOME)
        page.wait_until(lambda: position_s(page) == 0)
        assert page.text("play") == "Play", "what is paused stays so"
        page.find("play").click()
        page.wait_until(lambda: position_s(page) > 0)
        page.find("seek").send_keys(Keys.ESCAPE)
        page.wait_until(lambda: page.text("play") == "Play")
    assert page.complaints() == []


def test_what_still_plays_is_paused_where_it_is(page: Page, server: RunningServer) -> None:
    page.open(server.base_url)
    page.speak(TEXT * 20)
    page.wait_until(lambda: page.utterance("isComplete") and page.utterance("playedSamples") > 0)
    page.find("play").click()
    assert page.state == "finished"
    page.wait_until(lambda: page.text("play") == "Play")
    assert 0 < position_s(page) < page.utterance("receivedSamples") / RATE_HZ / 2


def test_what_was_heard_is_saved_without_the_server(page: Page, server: RunningServer) -> None:
    page.open(server.base_url)
    seeds = [speak(page, text) for text in ("First.", "Second!")]
    assert seeds[0] != seeds[1]
    assert page.texts("#history-list .line") == ["Second!", "First."]
    heard = []
    for text, seed in zip(("First.", "Second!"), seeds, strict=True):
        body = {"input": text, "seed": seed, "response_format": "pcm", "stream": False}
        answer = httpx.post(f"{server.base_url}/v1/audio/speech", json=body)
        heard.append(answer.raise_for_status().content)
    with without_server(page):
        click_in_history(page, "Save", 1)
        assert samples_of(page.downloaded("speech.wav")) == heard[0]
        page.find("download").click()
        assert samples_of(page.downloaded("speech.wav")) == heard[1]
        click_in_history(page, "Play", 1)
        page.wait_until(lambda: page.text("seed-used") == str(seeds[0]))
        page.choose("format", "pcm")
        page.find("download").click()
        assert page.downloaded("speech.pcm") == heard[0]
    page.choose("format", "flac")
    page.find("download").click()
    assert page.downloaded("speech.flac").startswith(b"fLaC")


def test_a_request_of_the_history_is_made_again(page: Page, server: RunningServer) -> None:
    page.open(server.base_url)
    page.choose("voice", "bass")
    page.write("40", "speed")
    seed = speak(page, "First.")
    page.choose("voice", "alto")
    page.write("15", "speed")
    speak(page, "Second.")
    click_in_history(page, "Reuse", 1)
    page.wait_until(lambda: page.driver.switch_to.active_element == page.find("text"))
    page.find("speak").click()
    page.wait_until(lambda: len(page.texts("#history-list li")) == 3)
    assert page.seed == seed
    files = []
    for number in (0, 2):
        click_in_history(page, "Save", number)
        files.append(page.downloaded("speech.wav"))
    assert files[0] == files[1]
    page.find("history-clear").click()
    assert not page.find("history").is_displayed()


@pytest.mark.parametrize("is_word_by_word", [False, True])
def test_words_that_the_voice_leaves_out_are_named(
    page: Page, hibari: RunningServer, is_word_by_word: bool
) -> None:
    page.open(hibari.base_url)
    page.script(f"document.getElementById('word-by-word').checked = {str(is_word_by_word).lower()}")
    speak(page, "Hello 你好 there 🎉.")
    assert page.text("left-out") == "This voice leaves out: 你好, 🎉"
    speak(page, "Hello.")
    assert not page.find("left-out").is_displayed()
