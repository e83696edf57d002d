"""The demonstration in a browser: it speaks, takes text word by word, and clones a recording."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="selenium is not installed")

from antiphon.config import ModelSettings, ServerSettings, Settings
from tests.demo.running import running_demo
from tests.recordings import wav
from tests.servers import start_server, wait_until
from tests.web.conftest import API_KEY
from tests.web.page import Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,  # Gradio's page takes seconds to load
    # To import it takes seconds, too: that is done in the demonstration's own process.
    pytest.mark.skipif(find_spec("gradio") is None, reason="Gradio is not installed"),
]

TEXT = "Hello there, and good morning to everybody."
CAN_STOP = "!document.querySelector('button.stop').disabled"
DOWNLOADS = "[...document.querySelectorAll('a[download]')]"
WAV_HEADER_BYTES = 44


class Demo:
    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        page.complaints()
        page.driver.get(url)
        wait_until(lambda: self.ask("!!window.antiphonDemo && !!document.querySelector('.speak')"))

    def ask(self, code: str) -> Any:
        return self.page.script(f"return {code}")

    def write(self, text: str, kind: str = "spoken-text") -> None:
        self.page.script(
            "const field = document.querySelector(`.${arguments[0]} textarea`);"
            "Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value')"
            ".set.call(field, arguments[1]);"
            "field.dispatchEvent(new Event('input', {bubbles: true}))",
            kind,
            text,
        )

    def press(self, name: str) -> None:
        self.page.script(f"document.querySelector('button.{name}, .{name} button').click()")

    def state(self) -> str:
        return str(self.ask("document.getElementById('measured').dataset.state"))

    def wait_for(self, *states: str) -> None:
        wait_until(lambda: self.state() in states)

    def measured(self, name: str) -> str:
        return str(self.ask(f"document.getElementById('measured-{name}').textContent"))


@pytest.fixture(scope="module")
def toy() -> Generator[str, None, None]:
    with speaking("toy") as url:
        yield url


def test_it_speaks_and_measures(page: Page, toy: str) -> None:
    demo = Demo(page, toy)
    wait_until(lambda: demo.ask(CAN_STOP) is False)
    demo.write(TEXT)
    demo.press("speak")
    demo.wait_for("finished")
    samples = demo.ask("antiphonDemo.utterance().receivedSamples")
    assert demo.measured("first").endswith(" ms")
    wait_until(lambda: demo.ask(CAN_STOP) is False)
    # Gradio's audio component and the history offer the same whole file.
    wait_until(lambda: demo.ask(f"{DOWNLOADS}.length") == 2)
    sizes = page.driver.execute_async_script(
        f"Promise.all({DOWNLOADS}.map((link) => fetch(link.href).then((file) => file.blob())))"
        ".then((files) => arguments[0](files.map((file) => file.size)))"
    )
    assert sizes == [WAV_HEADER_BYTES + 2 * samples] * 2
    assert TEXT in demo.ask("document.getElementById('spoken-list').textContent")
    demo.write("  ")
    demo.press("speak")
    demo.wait_for("failed")
    assert demo.measured("state") == "There is no text to speak."
    assert not [line for line in page.complaints() if "player" in line]


def test_words_are_sent_one_by_one_and_stop_stops(page: Page, toy: str) -> None:
    demo = Demo(page, toy)
    demo.write(TEXT)
    page.script("document.querySelector('input[type=checkbox]').click()")
    demo.press("speak")
    demo.wait_for("finished")
    assert demo.measured("text") == TEXT
    demo.write("word " * 200)
    demo.press("speak")
    wait_until(lambda: "word word" in demo.measured("text"))
    assert demo.ask(CAN_STOP)
    demo.press("stop")
    demo.wait_for("stopped")


def test_a_chat_is_answered_in_writing_and_aloud(page: Page, toy: str) -> None:
    demo = Demo(page, toy)
    page.script(
        "[...document.querySelectorAll('button[role=tab]')]"
        ".find((tab) => tab.textContent.trim() === 'Chat').click()"
    )
    wait_until(lambda: demo.ask("!!document.querySelector('.message-text textarea')"))
    for message in ("Good morning.", "And good night."):
        wait_until(lambda: answered(demo, message), every_s=1.0)  # noqa: B023
        demo.wait_for("finished")
        assert demo.measured("first").endswith(" ms")
    assert "You said: Good morning." in demo.ask("document.body.innerText")
    demo.write(" ", "message-text")
    demo.press("send")
    demo.wait_for("failed")
    assert demo.measured("state") == "There is no message to send."


def answered(demo: Demo, message: str) -> bool:
    """Whether a message is answered; sends it if not, since a tab may show controls too early."""
    if f"You said: {message}" in demo.ask("document.body.innerText"):
        return True
    demo.write(message, "message-text")
    demo.press("send")
    return False


def test_a_recording_is_cloned(page: Page, checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    recording = tmp_path / "voice.wav"
    recording.write_bytes(wav())
    with speaking(str(checkpoint("tiny", "base")), device="cpu") as url:
        demo = Demo(page, url)
        assert "Cloning" in page.driver.page_source
        demo.press("speak")
        demo.wait_for("failed")
        assert demo.measured("state") == "Upload or record a voice first."
        page.driver.find_element("css selector", "input[type=file]").send_keys(str(recording))
        demo.write("Hi.")
        wait_until(lambda: spoken(demo))


def spoken(demo: Demo) -> bool:
    """Whether a press of the button led to speech; the upload may still be under way."""
    demo.press("speak")
    demo.wait_for("finished", "failed", "broken")
    return demo.state() == "finished"


@contextmanager
def speaking(source: str, **model: Any) -> Generator[str, None, None]:
    """Run a server that wants a key, and a demonstration that has it; yield the latter's URL."""
    settings = Settings(
        model=ModelSettings(source=source, **model), server=ServerSettings(api_keys=(API_KEY,))
    )
    with start_server(settings) as running, running_demo(running.base_url, API_KEY) as url:
        yield url
