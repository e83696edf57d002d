"""The page's own arithmetic, run where it runs: bytes to samples, samples to blocks."""

import io
import wave

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("selenium", reason="selenium is not installed")

from tests.servers import RunningServer
from tests.web.page import Page

pytestmark = pytest.mark.browser

RATE_HZ = 1000
BLOCK = 16

READ_PIECES = """
const reader = new module.PcmReader(given[1]);
const samples = [];
// Each piece is a view into something larger, as the network's pieces are.
for (const piece of given[0]) {
  samples.push(...reader.read(new Uint8Array([9, ...piece]).subarray(1)));
}
return {samples, isTorn: reader.isTorn};
"""

# Pushes and pulls in any order; then finishes, and pulls to the end.
PLAY = """
const [steps, rate, size] = given;
const queue = new module.SampleQueue(rate);
const heard = [];
const pull = () => {
  const block = new Float32Array(size).fill(NaN);
  const before = queue.played;
  queue.pull(block);
  heard.push(...block.slice(0, queue.played - before));
  if (block.slice(queue.played - before).some((s) => s !== 0)) throw new Error("no silence");
};
for (const step of steps) Array.isArray(step) ? queue.push(new Float32Array(step)) : pull();
const early = queue.state;
queue.finish();
for (let i = 0; i < 1000 && queue.state !== "ended"; i += 1) pull();
return {heard, early, state: queue.state, underruns: queue.underruns};
"""

STOP = """
const queue = new module.SampleQueue(given[0]);
queue.push(new Float32Array(10 * given[0]).fill(1));
const blocks = [new Float32Array(given[1]), new Float32Array(given[1]), new Float32Array(given[1])];
queue.pull(blocks[0]);
queue.stop();
queue.pull(blocks[1]);
queue.pull(blocks[2]);
return {blocks: blocks.map((b) => [...b]), state: queue.state};
"""

RECORD = """
const [pieces, rate, channels] = given;
const recording = new module.Recording(rate, channels);
for (const piece of pieces) recording.add(new Uint8Array(piece), new Float32Array(0));
return Promise.all([recording.pcm, recording.wav].map(async (file) => {
  return [...new Uint8Array(await file.arrayBuffer())];
}));
"""


@pytest.fixture
def modules(page: Page, server: RunningServer) -> Page:
    if not page.driver.current_url.startswith(server.base_url):
        page.open(server.base_url)
    return page


MANY = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@MANY
@given(pieces=st.lists(st.binary(max_size=9).map(list), max_size=8), channels=st.integers(1, 2))
def test_any_cut_gives_the_same_samples(
    modules: Page, pieces: list[list[int]], channels: int
) -> None:
    whole = bytes(byte for piece in pieces for byte in piece)
    expected = np.frombuffer(whole[: len(whole) // 2 * 2], "<i2") / 32768
    got = modules.in_module("pcm.js", READ_PIECES, pieces, channels)
    assert got["samples"] == expected[::channels].tolist()
    assert got["isTorn"] is (len(whole) % (2 * channels) != 0)


chunks = st.lists(st.integers(-8, 8).map(lambda n: n / 8), max_size=300)


@MANY
@given(steps=st.lists(chunks | st.just("pull"), max_size=30))
def test_all_that_is_pushed_is_heard_in_order(
    modules: Page, steps: list[list[float] | str]
) -> None:
    pushed = [sample for step in steps if isinstance(step, list) for sample in step]
    got = modules.in_module("sample-queue.js", PLAY, steps, RATE_HZ, BLOCK)
    assert got["heard"] == pushed
    assert got["early"] != "ended"
    assert got["state"] == "ended"


def test_running_dry_counts_once_each_time_and_never_at_the_end(modules: Page) -> None:
    second = [0.5] * RATE_HZ
    drain = ["pull"] * (2 * RATE_HZ // BLOCK)
    steps = [second, *drain, second, *drain, second]
    assert modules.in_module("sample-queue.js", PLAY, steps, RATE_HZ, BLOCK)["underruns"] == 2
    whole = modules.in_module("sample-queue.js", PLAY, [second], RATE_HZ, BLOCK)
    assert whole["underruns"] == 0


def test_stopping_fades_within_a_block(modules: Page) -> None:
    got = modules.in_module("sample-queue.js", STOP, RATE_HZ, BLOCK)
    before, fading, after = got["blocks"]
    assert before == [1.0] * BLOCK
    assert fading == sorted(fading, reverse=True)
    assert fading[-1] == 0
    assert after == [0.0] * BLOCK
    assert got["state"] == "ended"


@pytest.mark.parametrize("num_channels", [1, 2])
def test_a_recording_is_a_wav_file_of_whole_frames(modules: Page, num_channels: int) -> None:
    pieces = [[1, 2, 3], [], [4, 5, 6, 7, 8, 9]]
    whole = bytes(range(1, 9))
    pcm, wav = modules.in_module("recording.js", RECORD, pieces, RATE_HZ, num_channels)
    assert bytes(pcm) == whole
    with wave.open(io.BytesIO(bytes(wav))) as file:
        assert (file.getnchannels(), file.getframerate()) == (num_channels, RATE_HZ)
        assert file.readframes(file.getnframes()) == whole


def test_a_language_is_offered_once_by_its_name(page: Page, server: RunningServer) -> None:
    page.open(server.base_url)
    code = "return module.languageOptions(given[0]).map((option) => Object.values(option))"
    found = page.in_module("form.js", code, ["auto", "english", "zh", "en", "en-gb"])
    assert found == [["english", "English"], ["zh", "Chinese"], ["en-gb", "British English"]]
