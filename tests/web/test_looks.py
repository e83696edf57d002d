"""What the page looks like: on narrow screens, in both colour schemes, to a screen reader."""

from collections.abc import Generator
from functools import partial
from importlib.resources import files
from itertools import product

import pytest

pytest.importorskip("selenium", reason="selenium is not installed")

from selenium.webdriver.common.by import By

from tests.servers import RunningServer
from tests.web.page import Page

pytestmark = pytest.mark.browser

ENOUGH_CONTRAST = 4.5  # WCAG 2.2, level AA, text of normal size

# Each text that is seen, with the contrast between it and what lies under it.
MEASURE_CONTRAST = """
const channels = (color) => color.match(/[\\d.]+/g).map(Number);
const luminance = (color) => channels(color).slice(0, 3).map((c) => c / 255)
  .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const below = (element) => {
  const color = getComputedStyle(element).backgroundColor;
  return channels(color)[3] === 0 && element.parentElement ? below(element.parentElement) : color;
};
const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
return [...document.querySelectorAll("body *")]
  .filter((e) => e.checkVisibility() && !e.disabled)
  .filter((e) => e.value || [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
  .map((e) => [e.outerHTML.slice(0, 80),
               ratio(luminance(getComputedStyle(e).color), luminance(below(e)))]);
"""

# The width that a list has for the text of its choice, beside its arrow, and what a text needs.
MEASURE_CHOICE = """
const style = getComputedStyle(document.getElementById(arguments[0]));
const context = document.createElement("canvas").getContext("2d");
context.font = style.font;
const ARROW_PX = 24;
const room = ["paddingLeft", "paddingRight"].reduce(
  (width, side) => width - parseFloat(style[side]), parseFloat(style.width) - ARROW_PX);
return [room, context.measureText(arguments[1]).width];
"""

RUN_AXE = """
const done = arguments[0];
const described = ({id, nodes}) => [id, ...nodes.map(({html}) => html.slice(0, 200))];
axe.run(document, {resultTypes: ["violations"]})
  .then(({violations}) => done(violations.map(described)), (error) => done([String(error)]));
"""


def show_everything(page: Page, server: RunningServer) -> None:
    """Open every fold, and be refused, so that all there can be is there."""
    page.open(server.base_url)
    page.script(
        "document.querySelector('details').open = true;"
        "document.getElementById('key-form').hidden = false;"
    )
    page.speak(" ")
    page.wait_for("failed")


@pytest.fixture
def screen(page: Page) -> Generator[Page, None, None]:
    """The page on screens of other kinds: loaded on one, and seen on all."""
    yield page
    page.emulate()


def test_nothing_is_wider_than_the_screen(screen: Page, server: RunningServer) -> None:
    screen.emulate(width=320, pixel_ratio=2)
    show_everything(screen, server)
    screen.write("w" * 400)
    for width in (320, 360, 768):
        screen.emulate(width=width, pixel_ratio=2)
        for tab in ("tab-curl", "tab-python"):
            screen.find(tab).click()
            assert screen.script("return document.documentElement.scrollWidth") <= width


def test_names_of_voices_are_not_cut(screen: Page, server: RunningServer) -> None:
    screen.open(server.base_url)
    for width in (1280, 390):
        screen.emulate(width=width)
        room, needed = screen.script(MEASURE_CHOICE, "voice", "Heart (en-US, female)")
        assert needed < room


def test_all_tabs_are_in_one_row(screen: Page, server: RunningServer) -> None:
    screen.emulate(width=320)
    screen.open(server.base_url)
    for width in (320, 390):
        screen.emulate(width=width)
        tabs = screen.driver.find_elements(By.CSS_SELECTOR, "#tasks [role=tab]")
        assert len({tab.location["y"] for tab in tabs if tab.is_displayed()}) == 1
        assert screen.script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read(screen: Page, server: RunningServer, dark: bool) -> None:
    screen.emulate(dark=dark)
    show_everything(screen, server)
    contrasts = screen.script(MEASURE_CONTRAST)
    assert len(contrasts) > 30
    assert [item for item in contrasts if item[1] < ENOUGH_CONTRAST] == []


def test_every_control_has_a_name(page: Page, server: RunningServer) -> None:
    show_everything(page, server)
    controls = page.driver.find_elements(By.CSS_SELECTOR, "input, select, textarea, button, canvas")
    assert len(controls) > 15
    seen = [control for control in controls if control.is_displayed()]
    assert [each.get_attribute("id") for each in seen if not each.accessible_name] == []


def is_finished(page: Page, task: str) -> bool:
    return page.text(f"{task}-status") == "Finished"


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_axe_finds_nothing(screen: Page, server: RunningServer, width: int, dark: bool) -> None:
    package = pytest.importorskip("axe_core_python", reason="axe-core is not installed")
    axe = (files(package) / "axe.min.js").read_text(encoding="utf-8")
    screen.emulate(width=width, dark=dark)
    screen.open(server.base_url)
    screen.speak("A")
    screen.wait_for("finished")
    screen.script("for (const fold of document.querySelectorAll('details')) fold.open = true")
    screen.speak(" ")
    screen.wait_for("failed")
    screen.script(axe)
    screen.script("document.getElementById('key-form').hidden = false")
    assert screen.driver.execute_async_script(RUN_AXE) == [], "a refusal is shown"
    screen.find("key-close").click()
    for task in ("speech", "voices", "chat", "image", "video"):
        screen.find(f"task-{task}").click()
        if task in ("image", "video"):
            screen.find(f"{task}-make").click()
            screen.wait_until(partial(is_finished, screen, task))
        found = screen.driver.execute_async_script(RUN_AXE)
        assert found == [], task
    screen.driver.get(f"{server.base_url}/guides/docs/api.md")
    screen.script(axe)
    assert screen.driver.execute_async_script(RUN_AXE) == [], "a guide"
    assert screen.script("return document.documentElement.scrollWidth") <= width


def is_about(num_pixels: float, page: Page) -> bool:
    width = page.script("return document.getElementById('wave').width")
    return bool(abs(width - num_pixels) < 2)  # CSS pixels are rounded before they are multiplied


def test_the_waveform_has_a_pixel_for_each_of_the_screen(
    screen: Page, server: RunningServer
) -> None:
    screen.open(server.base_url)
    for pixel_ratio, width in product((1, 2.5), (1200, 500)):
        screen.emulate(width=width, pixel_ratio=pixel_ratio)
        shown = screen.script("return document.getElementById('wave').clientWidth")
        screen.wait_until(partial(is_about, shown * pixel_ratio, screen))
