"""The page as its user meets it, driven in a real browser."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.servers import DEADLINE_S, wait_until

OTHER_HOST = "speech.lan"
"""A name of this host that a browser does not trust as it trusts the loopback's."""

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"),
    *("--autoplay-policy=no-user-gesture-required", "--window-size=1200,1000"),
    f"--host-resolver-rules=MAP {OTHER_HOST} 127.0.0.1",
)

FORGET = """
const done = arguments[0];
const deleted = ({name}) => new Promise((resolve) => {
  indexedDB.deleteDatabase(name).onsuccess = resolve;
});
localStorage.clear();
indexedDB.databases().then((all) => Promise.all(all.map(deleted))).then(() => done());
"""


@dataclass(frozen=True)
class Page:
    """A browser that shows the page of one server at a time."""

    driver: webdriver.Chrome
    downloads: Path

    def open(self, base_url: str) -> None:
        """Load the page anew, forgetting what earlier visits left; wait for its lists."""
        self.driver.get(f"{base_url}/static/icon.svg")
        self.driver.execute_async_script(FORGET)
        self.complaints()
        self.visit(base_url)

    def visit(self, base_url: str) -> None:
        """Load the page with what earlier visits left; wait for its lists."""
        self.driver.get(base_url)
        self.wait_until(lambda: self.text("status") == "Ready")

    def find(self, id: str) -> WebElement:
        return self.driver.find_element(By.ID, id)

    def text(self, id: str) -> str:
        """Return the text of an element, as far as it is shown; at a tenth of the driver's cost."""
        text: str = self.script(
            "const element = document.getElementById(arguments[0]);"
            "return element.checkVisibility() ? element.innerText.trim() : ''",
            id,
        )
        return text

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements that match, at one moment: the page replaces some."""
        texts: list[str] = self.script(
            "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText.trim())",
            selector,
        )
        return texts

    def write(self, text: str, id: str = "text") -> None:
        """Put text into a field, as pasting does; keys cannot type every character."""
        self.script(
            "const [field, text] = arguments; field.value = text;"
            "field.dispatchEvent(new Event('input', {bubbles: true}))",
            self.find(id),
            text,
        )

    def choose(self, id: str, value: str) -> None:
        """Wait for an option and choose it, at once: the page replaces options as lists arrive."""
        self.wait_until(
            lambda: self.script(
                "const [id, value] = arguments; const select = document.getElementById(id);"
                "if (![...select.options].some((option) => option.value === value)) return false;"
                "select.value = value;"
                "for (const name of ['input', 'change'])"
                " select.dispatchEvent(new Event(name, {bubbles: true}));"
                "return true",
                id,
                value,
            )
        )

    def speak(self, text: str) -> None:
        self.write(text)
        self.find("speak").click()

    @property
    def state(self) -> str:
        return str(self.script("return document.body.dataset.state"))

    def wait_for(self, *states: str) -> None:
        self.wait_until(lambda: self.state in states)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for what the page is asked, seldom enough to leave it the processor."""
        wait_until(condition, every_s=0.05)

    def utterance(self, field: str) -> Any:
        """A field of what the page knows about the present utterance."""
        return self.script("return window.antiphon.utterance()[arguments[0]]", field)

    @property
    def seed(self) -> int:
        return int(self.text("seed-used"))

    def downloaded(self, name: str) -> bytes:
        """Wait for a finished file; take it away, so that the next one has the same name."""
        file = self.downloads / name
        # A name is reserved by an empty file, before anything is downloaded under another one.
        self.wait_until(
            lambda: (
                file.exists()
                and file.stat().st_size > 0
                and not list(self.downloads.glob("*.crdownload"))
            )
        )
        content = file.read_bytes()
        file.unlink()
        return content

    def complaints(self) -> list[str]:
        """What the console has said since the last call; breaches of the policy are among it."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def emulate(self, *, width: int = 1200, dark: bool = False, pixel_ratio: float = 1) -> None:
        """Be a screen of another kind."""
        screen = {"width": width, "height": 1000, "deviceScaleFactor": pixel_ratio, "mobile": False}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def script(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(code, *arguments)

    def in_module(self, module: str, code: str, *arguments: Any) -> Any:
        """Run a function body with a module of the page as ``module``; it returns JSON."""
        found = self.driver.execute_async_script(
            f"const done = arguments[arguments.length - 1]; const given = JSON.parse(arguments[0]);"
            f"import('/static/{module}')"
            f".then((module) => {{ {code} }})"
            f".then((value) => done({{value}}), (error) => done({{error: String(error)}}))",
            json.dumps(arguments),
        )
        assert "error" not in found, found
        return found["value"]


def start_browser(browser: Path, driver: Path, profile: Path, downloads: Path) -> Page:
    options = webdriver.ChromeOptions()
    options.binary_location = str(browser)
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(str(driver))
    chrome = webdriver.Chrome(options=options, service=service)
    chrome.set_script_timeout(DEADLINE_S)
    return Page(chrome, downloads)
