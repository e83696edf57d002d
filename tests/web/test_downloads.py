"""Files in a real browser: it knows how long a whole one is, and plays a streamed one."""

from typing import Any

import pytest

pytest.importorskip("selenium", reason="selenium is not installed")

from tests.servers import RunningServer
from tests.web.page import Page

pytestmark = pytest.mark.browser

TEXT = "A few words, as tones."
DURATION_S = len(TEXT) * 2 * 0.04  # the toy's frames: two a letter, 40 ms each
# What MP3 and AAC put before and after, and what a browser cannot know of a file of frames (ADTS).
PADDING_S = {"mp3": 0.08, "aac": 0.08}

PLAY = """
const [body, done] = arguments;
const played = async () => {
  const headers = {"Content-Type": "application/json"};
  const request = {method: "POST", headers, body: JSON.stringify(body)};
  const response = await fetch("/v1/audio/speech", request);
  const audio = new Audio(URL.createObjectURL(await response.blob()));
  const heard = (name) => new Promise((resolve) => audio.addEventListener(name, resolve));
  const failed = heard("error").then(() => { throw new Error(audio.error.message); });
  const ended = heard("ended");
  await Promise.race([heard("loadedmetadata"), failed]);
  const told = audio.duration;
  await audio.play();
  await Promise.race([ended, failed]);
  return {told: Number.isFinite(told) ? told : null, played: audio.currentTime};
};
played().then(done, (error) => done({error: String(error)}));
"""


def play(page: Page, server: RunningServer, format: str, **fields: Any) -> dict[str, Any]:
    """Let the browser fetch a file and play it; return how long it said and turned out to be."""
    page.driver.get(f"{server.base_url}/health")  # the page's own policy lets it play no files
    body = {"input": TEXT, "seed": 1, "response_format": format, **fields}
    got: dict[str, Any] = page.driver.execute_async_script(PLAY, body)
    assert "error" not in got, got
    return got


@pytest.mark.parametrize("format", ["mp3", "opus", "aac", "flac", "wav"])
def test_a_whole_file_is_as_long_as_it_says(page: Page, server: RunningServer, format: str) -> None:
    got = play(page, server, format, stream=False)
    padding_s = 0.08 if format == "aac" else 0.01
    assert got["told"] == pytest.approx(DURATION_S, abs=padding_s)
    assert got["played"] == pytest.approx(DURATION_S, abs=padding_s)


@pytest.mark.parametrize("format", ["mp3", "opus", "aac", "flac", "wav"])
def test_a_streamed_file_is_played_to_its_end(
    page: Page, server: RunningServer, format: str
) -> None:
    got = play(page, server, format)
    assert got["played"] == pytest.approx(DURATION_S, abs=PADDING_S.get(format, 0.05))
