"""The page's history over visits: in the browser's database, within limits, until it is cleared."""

from typing import Any

import pytest

pytest.importorskip("selenium", reason="selenium is not installed")

from tests.servers import RunningServer
from tests.web.page import Page
from tests.web.test_listening import click_in_history, speak, without_server

pytestmark = pytest.mark.browser

MB = 10**6

# Adds utterances of given sizes to a store, and returns the sizes of what is then in another.
KEEP = """
const store = new module.HistoryStore();
return (async () => {
  for (const [i, size] of given[0].entries()) {
    const pcm = new Blob([new Uint8Array(size)]);
    const more = {figures: {}, numChannels: 1, bins: []};
    await store.add({startedMs: i, body: {input: `${i}`}, pcm, ...more});
  }
  const all = await new module.HistoryStore().all();
  await store.clear();
  return all.map(({body, pcm}) => [Number(body.input), pcm.size]);
})();
"""

COUNT = "return new module.HistoryStore().all().then((all) => all.length);"


def lines(page: Page) -> list[str]:
    return page.texts("#history-list .line")


def shown(page: Page) -> list[Any]:
    return [page.texts("#numbers dd"), page.text("seed-used"), page.text("duration")]


@pytest.mark.slow  # what is heard is saved, loaded again, played and converted
def test_it_survives_a_reload_and_not_its_clearing(page: Page, server: RunningServer) -> None:
    page.open(server.base_url)
    for text in ("First.", "Second!"):
        speak(page, text)
    page.wait_until(lambda: "at most 50 MB" in page.text("history-hint"))
    notes, figures = page.texts("#history-list .note"), shown(page)
    click_in_history(page, "Save", 0)
    heard = page.downloaded("speech.wav")
    page.visit(server.base_url)
    page.wait_until(lambda: lines(page) == ["Second!", "First."])
    assert page.texts("#history-list .note") == notes
    assert not page.find("numbers").is_displayed()
    with without_server(page):
        click_in_history(page, "Save", 0)
        assert page.downloaded("speech.wav") == heard
        click_in_history(page, "Play", 0)
        page.wait_until(lambda: page.text("position") == page.text("duration") != "0:00.0")
        assert shown(page) == figures
    page.choose("format", "flac")
    page.find("download").click()
    assert page.downloaded("speech.flac").startswith(b"fLaC")
    speak(page, "Third.")
    assert lines(page) == ["Third.", "Second!", "First."]
    page.find("history-clear").click()
    page.wait_until(lambda: page.in_module("history-store.js", COUNT) == 0)
    page.visit(server.base_url)
    speak(page, "Fourth.")
    assert lines(page) == ["Fourth."]
    assert page.complaints() == []


def test_what_still_plays_survives_too(page: Page, server: RunningServer) -> None:
    page.open(server.base_url)
    page.speak("A long text. " * 20)
    page.wait_until(lambda: page.utterance("isComplete"))
    assert page.state == "playing"
    page.wait_until(lambda: page.in_module("history-store.js", COUNT) == 1)
    page.find("history-clear").click()
    page.find("stop").click()
    assert (page.state, lines(page)) == ("stopped", []), "what is cleared stays so"
    page.speak("A long text. " * 20)
    page.wait_until(lambda: page.utterance("isComplete"))
    page.wait_until(lambda: page.in_module("history-store.js", COUNT) == 1)
    page.visit(server.base_url)
    page.wait_until(lambda: len(lines(page)) == 1)
    click_in_history(page, "Play", 0)
    page.wait_until(lambda: page.text("play") == "Pause")
    page.find("play").click()
    assert page.complaints() == []


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([10] * 25, range(5, 25)),
        ([20 * MB, 20 * MB, 20 * MB], [1, 2]),
        ([10, 60 * MB, 10], [0, 2]),
        ([10, 49 * MB], [0, 1]),
    ],
)
def test_the_oldest_are_dropped(
    page: Page, server: RunningServer, sizes: list[int], kept: list[int]
) -> None:
    page.open(server.base_url)
    found = page.in_module("history-store.js", KEEP, sizes)
    assert found == [[number, sizes[number]] for number in reversed(kept)]


@pytest.mark.parametrize("database", ["undefined", "{open() { throw new Error(); }}"])
def test_without_a_database_it_lasts_as_long_as_the_page(
    page: Page, server: RunningServer, database: str
) -> None:
    code = f"Object.defineProperty(window, 'indexedDB', {{value: {database}}})"
    page.open(server.base_url)
    added = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": code})
    try:
        page.visit(server.base_url)
        speak(page, "First.")
        assert lines(page) == ["First."]
        assert page.text("history-hint") == "Kept in this browser until the page is closed."
        page.find("history-clear").click()
        assert lines(page) == []
        assert page.complaints() == []
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
