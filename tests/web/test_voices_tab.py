"""The page's tab of voices: they are mixed, designed, added, listened to and deleted."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("selenium", reason="selenium is not installed")
pytest.importorskip("torch", reason="needs the extra 'torch'")

from selenium.webdriver.common.by import By

from antiphon.config import DataSettings, ModelSettings, ModelsSettings, Settings
from tests.families.kokoro.layouts import make_export
from tests.recordings import wav
from tests.servers import RunningServer, start_server
from tests.web.page import Page

pytestmark = pytest.mark.browser

AWKWARD = 'It\'s "$HOME" \\ `ticks`,\na line.'


@pytest.fixture(scope="module")
def server_of_voices(
    checkpoint: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Generator[RunningServer, None, None]:
    """A server of a model that mixes voices, one that clones and one that designs them."""
    mixing = tmp_path_factory.mktemp("kokoro")
    make_export(mixing)
    others = [
        ModelSettings(source=str(checkpoint("tiny", task)), name=name, device="cpu")
        for name, task in (("clone", "base"), ("design", "voice_design"))
    ]
    settings = Settings(
        model=ModelSettings(source=str(mixing), name="mixing", device="cpu"),
        models=ModelsSettings(more=tuple(others)),
        data=DataSettings(dir=tmp_path_factory.mktemp("voices")),
    )
    with start_server(settings) as running:
        yield running


def open_voices(page: Page, server: RunningServer, model: str) -> None:
    page.open(server.base_url)
    page.find("task-voices").click()
    page.choose("voices-model", model)
    page.write("Hi.", "voices-sample")


def labels(page: Page) -> list[str]:
    return page.texts("#voices-list .line")


def press(page: Page, label: str) -> None:
    page.driver.find_element(By.CSS_SELECTOR, f"[aria-label='{label}']").click()


def wait_for_status(page: Page, *statuses: str) -> None:
    page.wait_until(lambda: page.text("voices-status") in (*statuses, "Failed"))
    assert page.text("alert") == ""


def voices_of(server: RunningServer, model: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{server.base_url}/v1/audio/voices", params={"model": model})
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


def test_a_mix_is_listened_to_and_used(page: Page, server_of_voices: RunningServer) -> None:
    open_voices(page, server_of_voices, "mixing")
    page.wait_until(lambda: labels(page)[:2] == ["Heart", "Sky"])
    assert page.find("mix-form").is_displayed()
    assert not page.find("design-form").is_displayed()
    weight = page.driver.find_element(By.CSS_SELECTOR, "#mix-parts input")
    weight.clear()
    weight.send_keys("2")
    assert page.text("mix-name") == "af_heart(2)+af_sky"
    page.find("mix-listen").click()
    wait_for_status(page, "Playing")
    page.find("mix-use").click()
    page.wait_until(lambda: page.find("voice").get_property("value") == "af_heart(2)+af_sky")
    page.speak("Hi.")
    page.wait_for("finished", "broken", "failed")
    assert page.state == "finished"
    page.choose("model", "clone")
    page.wait_until(lambda: page.find("voice").get_property("value") == "reference")
    page.find("history-list").find_element(By.CSS_SELECTOR, "[aria-label^=Reuse]").click()
    page.wait_until(lambda: page.find("voice").get_property("value") == "af_heart(2)+af_sky")
    assert page.find("model").get_property("value") == "mixing"
    assert page.complaints() == []


@pytest.mark.slow
def test_a_voice_is_added_used_and_deleted(
    page: Page, server_of_voices: RunningServer, tmp_path: Path
) -> None:
    recording = tmp_path / "ann.wav"
    recording.write_bytes(wav())
    open_voices(page, server_of_voices, "clone")
    page.wait_until(lambda: labels(page) == ["Reference"])
    (note,) = page.texts("#voices-list .note")
    assert "ref_audio" in note, "what it is"
    page.write("Ann", "voice-name")
    page.find("voice-add").click()
    assert labels(page) == ["Reference"], "the speaker has not agreed"
    page.find("voice-consent").click()
    page.find("voice-add").click()
    page.wait_until(lambda: page.driver.switch_to.active_element == page.find("voice-audio"))
    assert "Recording" in page.text("alert")
    page.find("voice-audio").send_keys(str(recording))
    page.find("voice-add").click()
    wait_for_status(page, "Added")
    page.wait_until(lambda: labels(page) == ["Reference", "Ann"])
    (kept,) = [each for each in voices_of(server_of_voices, "clone") if each["name"] == "Ann"]
    press(page, "Listen: Ann")
    wait_for_status(page, "Playing")
    press(page, "Use: Ann")
    page.wait_until(lambda: page.find("voice").get_property("value") == "Ann")
    page.speak("Hi.")
    page.wait_for("finished", "broken", "failed")
    assert page.state == "finished"
    page.find("task-voices").click()
    press(page, "Delete: Ann")
    page.driver.switch_to.alert.dismiss()
    assert kept in voices_of(server_of_voices, "clone")
    press(page, "Delete: Ann")
    page.driver.switch_to.alert.accept()
    page.wait_until(lambda: labels(page) == ["Reference"])
    assert kept not in voices_of(server_of_voices, "clone")


def test_a_designed_voice_is_kept(page: Page, server_of_voices: RunningServer) -> None:
    open_voices(page, server_of_voices, "design")
    assert page.find("design-form").is_displayed()
    assert not page.find("mix-form").is_displayed()
    page.find("design-listen").click()
    page.wait_until(lambda: page.find("design-keep").is_enabled())
    page.find("design-keep").click()
    assert page.driver.switch_to.active_element == page.find("voice-name")
    assert page.find("voice-text").get_property("value") == "Hi."
    page.find("design-use").click()
    page.wait_until(lambda: page.find("instructions").is_displayed())
    described = page.find("design-text").get_property("value")
    assert page.find("instructions").get_property("value") == described
    assert page.complaints() == []


def test_a_recording_is_made_here(page: Page, server_of_voices: RunningServer) -> None:
    open_voices(page, server_of_voices, "clone")
    page.find("voice-audio-record").click()
    page.wait_until(lambda: page.text("voice-audio-record") == "Stop recording")
    page.find("voice-audio-record").click()
    page.wait_until(lambda: page.text("voice-audio-hint").startswith("recording.webm"))
    assert page.find("voice-audio-audio").is_displayed()
    assert page.text("voice-audio-record") == "Record"


@pytest.mark.slow  # a voice is cloned three times
def test_code_with_a_recording_works_as_it_is(
    page: Page, server_of_voices: RunningServer, tmp_path: Path
) -> None:
    recording = tmp_path / "Ann's own.wav"
    recording.write_bytes(wav())
    page.open(server_of_voices.base_url)
    page.choose("model", "clone")
    page.find("reference").send_keys(str(recording))
    page.wait_until(lambda: "KiB" in page.text("reference-hint"))
    page.choose("format", "pcm")
    page.write(AWKWARD)
    made = []
    for tab, command in (("curl", "sh"), ("python", sys.executable)):
        page.find(f"tab-{tab}").click()
        code = page.script("return document.getElementById('code').textContent")
        if shutil.which("curl") is not None or tab != "curl":
            subprocess.run([command, "-c", code], cwd=tmp_path, check=True, capture_output=True)
            made.append((tmp_path / "speech.pcm").read_bytes())
    page.find("speak").click()
    page.wait_until(lambda: page.utterance("isComplete") or page.state == "failed")
    page.find("download").click()
    assert set(made) == {page.downloaded("speech.pcm")}
