"""The page in a real browser: what its user does, and what must then be true."""

import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from anyio import to_thread
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from antiphon import __version__
from antiphon.errors import EngineError

pytest.importorskip("selenium", reason="selenium is not installed")

from selenium.webdriver.common.keys import Keys

from tests.faulty import CHUNK_SAMPLES
from tests.servers import RunningServer, start_server, wait_until
from tests.web.conftest import API_KEY
from tests.web.page import OTHER_HOST, Page

pytestmark = pytest.mark.browser

BYTES_PER_SAMPLE = 2
RATE_HZ = 24_000
# Days of audio: no buffer on the way holds them, so a server that is free has been told to stop.
ENDLESS = "999999 chunks, then stop"
AWKWARD = 'It\'s "quoted" \\ with $HOME, `ticks`,\na second line, ünï©ode and 🦜!'

# An empty view is of one colour and its edges; a drawn one has at least another.
COUNT_COLORS = """
const canvas = document.getElementById("wave");
const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
return new Set(new Uint32Array(data.buffer)).size;
"""


def pcm_of(server: RunningServer, text: str, seed: int) -> bytes:
    """Ask for what the page should have got, without the page."""
    body = {"input": text, "seed": seed, "response_format": "pcm", "stream": False}
    return httpx.post(f"{server.base_url}/v1/audio/speech", json=body).raise_for_status().content


def test_loads_without_a_complaint_and_from_nowhere_else(page: Page, server: RunningServer) -> None:
    page.open(server.base_url)
    assert page.complaints() == []
    fetched = page.script("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert fetched
    assert all(url.startswith(server.base_url) for url in fetched)
    assert page.text("status") == "Ready"
    assert page.text("model").split() == list(server.state.speech.models)
    assert page.text("version") == f"v{__version__}"


def test_speaks_all_that_the_server_made(page: Page, server: RunningServer) -> None:
    page.open(server.base_url)
    num_colors = page.script(COUNT_COLORS)
    page.speak("Sing.")
    page.wait_for("finished", "broken", "failed")
    assert page.state == "finished"
    num_samples = len(pcm_of(server, "Sing.", page.seed)) // BYTES_PER_SAMPLE
    assert page.utterance("receivedSamples") == num_samples
    assert page.utterance("playedSamples") == num_samples
    assert 0 < page.utterance("firstAudioMs") <= page.utterance("playbackMs")
    page.wait_until(lambda: page.text("audio") == f"{num_samples / RATE_HZ:.2f} s")
    assert page.text("first-audio") == f"{int(page.utterance('firstAudioMs') + 0.5)} ms"
    assert page.complaints() == []
    assert page.script(COUNT_COLORS) > num_colors


def test_speaks_on_a_page_without_tls_from_another_host(page: Page, server: RunningServer) -> None:
    page.open(server.base_url.replace("127.0.0.1", OTHER_HOST))
    assert page.script("return isSecureContext") is False
    page.speak("Sing.")
    page.wait_for("finished", "broken", "failed")
    assert page.state == "finished"
    num_samples = len(pcm_of(server, "Sing.", page.seed)) // BYTES_PER_SAMPLE
    assert page.utterance("playedSamples") == num_samples
    page.find("copy").click()
    page.wait_until(lambda: page.text("copy") == "Copied")


def test_stopping_silences_and_frees_the_server(page: Page, faulty_server: RunningServer) -> None:
    page.open(faulty_server.base_url)
    page.speak(ENDLESS)
    page.wait_for("playing")
    assert faulty_server.num_open > 0
    page.find("stop").click()
    assert page.state == "stopped"
    assert not page.find("stop").is_enabled()
    wait_until(lambda: faulty_server.num_open == 0)
    assert page.utterance("failure") is None
    assert page.text("alert") == ""


def test_what_was_stopped_stays_silent(page: Page, faulty_server: RunningServer) -> None:
    page.open(faulty_server.base_url)
    page.speak(ENDLESS)
    page.wait_for("playing")
    page.wait_until(lambda: page.utterance("playedSamples") > 0)
    page.script("window.stopped = window.antiphon.utterance(); window.stopped.stop()")
    page.speak("1 chunks, then stop")
    page.wait_until(lambda: page.utterance("playedSamples") > 0)
    num_played = page.script("return window.stopped.playedSamples")
    page.wait_for("finished")
    assert page.script("return window.stopped.playedSamples") == num_played


def test_reads_no_further_than_two_minutes_ahead(page: Page, faulty_server: RunningServer) -> None:
    page.open(faulty_server.base_url)
    page.speak(ENDLESS)
    page.wait_until(lambda: page.utterance("receivedSamples") > 120 * RATE_HZ)
    num_played = page.utterance("playedSamples")
    page.wait_until(lambda: page.utterance("playedSamples") > num_played + RATE_HZ)
    num_ahead = page.utterance("receivedSamples") - page.utterance("playedSamples")
    assert num_ahead < 140 * RATE_HZ
    page.find("stop").click()
    wait_until(lambda: faulty_server.num_open == 0)


def test_a_refusal_is_shown(page: Page, server: RunningServer) -> None:
    page.open(server.base_url)
    place = page.find("wave").location
    page.speak(" ")
    page.wait_for("failed")
    alert = page.find("alert")
    assert alert.aria_role == "alert"
    assert alert.text.startswith("Text: Input text cannot be empty.")
    assert "HTTP 400" in alert.text
    assert page.find("wave").location == place
    page.write("B")
    assert alert.text == ""
    page.speak("A")
    page.wait_for("finished")
    assert page.text("alert") == ""


def test_the_field_at_fault_is_marked_and_focused(page: Page, server: RunningServer) -> None:
    page.open(server.base_url)
    page.write("1.5", "seed")
    page.script("document.getElementById('speech-form').noValidate = true")
    page.speak("A")
    page.wait_for("failed")
    assert page.driver.switch_to.active_element == page.find("seed")
    assert page.find("seed").is_displayed(), "its fold is open"
    assert page.find("seed").get_attribute("aria-invalid") == "true"
    assert "Seed" in page.text("alert")
    page.write("1", "seed")
    assert page.find("seed").get_attribute("aria-invalid") is None
    page.speak("A")
    page.wait_for("finished")


@pytest.mark.parametrize("ending", ["raises", "ends in the middle of a sample"])
def test_a_broken_stream_is_not_finished(page: Page, ending: str) -> None:
    has_arrived = threading.Event()

    async def speak(request: Request) -> Response:
        if not await request.body():  # the server warms its routes
            return Response()

        async def pieces() -> AsyncGenerator[bytes, None]:
            yield bytes(4801)
            await to_thread.run_sync(has_arrived.wait)
            if ending == "raises":
                raise EngineError("midway")

        return StreamingResponse(pieces(), media_type="audio/pcm;rate=24000")

    def replace_speech(app: FastAPI) -> None:
        app.router.routes.insert(0, Route("/v1/audio/speech", speak, methods=["POST"]))

    with start_server(on_app=replace_speech) as server:
        page.open(server.base_url)
        page.speak("A")
        page.wait_until(lambda: page.utterance("receivedSamples") == 2400)
        has_arrived.set()
        page.wait_for("broken", "finished", "failed")
    assert page.state == "broken"
    assert "incomplete" in page.text("alert")
    assert page.utterance("playedSamples") == 2400


def test_a_failure_before_the_first_sample_is_shown(
    page: Page, faulty_server: RunningServer
) -> None:
    page.open(faulty_server.base_url)
    page.speak("0 chunks, then engine error")
    page.wait_for("failed")
    assert "the script says so" in page.text("alert")


def test_a_server_that_is_gone_is_told(page: Page, server: RunningServer) -> None:
    page.open(server.base_url)
    page.driver.execute_cdp_cmd("Network.enable", {})
    page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/v1/*"]})
    try:
        page.speak("A")
        page.wait_for("failed")
        assert "cannot be reached" in page.text("alert")
    finally:
        page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})


def test_keys_speak_and_stop(page: Page, faulty_server: RunningServer) -> None:
    page.open(faulty_server.base_url)
    page.write(ENDLESS)
    page.find("text").send_keys(Keys.CONTROL, Keys.ENTER)
    page.wait_for("playing")
    page.find("text").send_keys(Keys.ESCAPE)
    assert page.state == "stopped"
    wait_until(lambda: faulty_server.num_open == 0)


def test_speaking_again_ends_what_is_being_said(page: Page, faulty_server: RunningServer) -> None:
    page.open(faulty_server.base_url)
    page.speak(ENDLESS)
    page.wait_for("playing")
    page.speak("1 chunks, then stop")
    page.wait_for("finished")
    assert page.utterance("playedSamples") == CHUNK_SAMPLES
    wait_until(lambda: faulty_server.num_open == 0)


def set_everything(page: Page, seed: str) -> None:
    page.choose("voice", "bass")
    page.choose("language", "german")
    page.choose("format", "pcm")
    page.script("document.querySelector('details').open = true")
    page.write(seed, "seed")
    page.write("40", "speed")
    page.write(AWKWARD)


@pytest.mark.parametrize("tab", ["curl", "python"])
def test_the_code_asks_for_exactly_what_is_set(
    page: Page, server: RunningServer, tmp_path: Path, tab: str
) -> None:
    if tab == "curl" and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    page.open(server.base_url)
    set_everything(page, seed="123456789")
    page.find(f"tab-{tab}").click()
    code = page.script("return document.getElementById('code').textContent")
    command = ["sh"] if tab == "curl" else [sys.executable]
    subprocess.run([*command, "-c", code], cwd=tmp_path, check=True, capture_output=True)
    page.find("speak").click()
    page.wait_for("finished")
    page.find("download").click()
    assert (tmp_path / "speech.pcm").read_bytes() == page.downloaded("speech.pcm")


@pytest.mark.parametrize("remember", [False, True])
def test_a_key_is_asked_for_and_kept_only_if_wanted(
    page: Page, locked_server: RunningServer, remember: bool
) -> None:
    page.open(locked_server.base_url)
    place = page.find("wave").location
    page.speak("A")
    page.wait_for("failed")
    assert "No API key was given" in page.text("alert")
    assert page.find("wave").location == place
    page.find("key").send_keys(Keys.ESCAPE)
    assert not page.find("key").is_displayed()
    page.find("key-open").click()
    page.find("key").send_keys(API_KEY)
    if remember:
        page.find("key-remember").click()
    page.find("key").send_keys(Keys.ENTER)
    page.speak("A")
    page.wait_for("finished")
    code = page.script("return document.getElementById('code').textContent")
    assert "ANTIPHON_API_KEY" in code
    assert API_KEY not in code
    assert (API_KEY in page.script("return Object.values(localStorage)")) is remember
    page.driver.refresh()
    page.wait_until(lambda: page.text("status") == "Ready")
    page.speak("A")
    page.wait_for("finished", "failed")
    assert page.state == ("finished" if remember else "failed")
