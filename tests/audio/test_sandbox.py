"""Hostile files: the process that decodes them suffers, and only that one."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest

from antiphon.audio.decode import decode_audio
from antiphon.audio.sandbox import DecodeSandbox
from antiphon.errors import EngineError, InvalidRequestError
from antiphon.sandbox import process
from antiphon.types import Samples
from tests.audio.files import tone, written
from tests.audio.hostile import (
    id3_with_a_huge_picture,
    mp4_of_untold_fragments,
    mp4_of_untold_samples,
)

GOOD = written(tone(44100, 2), 44100, "MP3")


@pytest.fixture(scope="module")
def shared() -> Generator[DecodeSandbox, None, None]:
    decoder = DecodeSandbox()
    yield decoder
    decoder.close()


def decoded(decoder: DecodeSandbox, data: bytes, max_duration_s: float = 30.0) -> Samples:
    return decoder.decode(
        data, sample_rate_hz=24000, max_duration_s=max_duration_s, min_duration_s=1.0
    )


def test_it_does_what_decoding_here_does(shared: DecodeSandbox) -> None:
    expected = decode_audio(GOOD, sample_rate_hz=24000, max_duration_s=30)
    for _ in range(2):  # by a fresh child, and by one that has waited
        np.testing.assert_array_equal(decoded(shared, GOOD), expected)
    for data, limit_s, message in [
        (b"?", 30, "Could not decode audio: it is not a readable"),
        (b"", 30, "Could not decode audio: it is not a readable"),
        (written(tone(8000, 0.3), 8000, "WAV"), 30, r"too short \(0\.3s\)"),
        (GOOD, 1, r"too long \(2\.\ds\)"),
    ]:
        with pytest.raises(InvalidRequestError, match=message) as refused:
            decoded(shared, data, limit_s)
        assert refused.value.param == "ref_audio"


def test_hostile_files_are_refused_or_heard(shared: DecodeSandbox) -> None:
    for data in (mp4_of_untold_samples(), mp4_of_untold_fragments()):
        assert len(data) < 2000
        with pytest.raises(InvalidRequestError):
            decoded(shared, data)
    assert len(decoded(shared, id3_with_a_huge_picture(64_000_000) + GOOD)) > 0


def test_a_file_that_needs_more_than_there_is_ends_its_own_child() -> None:
    decoder = DecodeSandbox(max_memory_bytes=48_000_000)
    try:
        assert len(decoded(decoder, GOOD)) > 0
        with pytest.raises(InvalidRequestError, match="needs too much memory"):
            decoded(decoder, bytes(64_000_000))
        with pytest.raises(InvalidRequestError, match="Could not decode audio"):
            decoded(decoder, mp4_of_untold_fragments())
        assert len(decoded(decoder, GOOD)) > 0
    finally:
        decoder.close()


def output_of_child(code: str, *paths: Path) -> str:
    """Run code that stands where a child has given up its rights."""
    begin = "import sys; num_paths = int(sys.argv[1]); paths = sys.argv[2 : 2 + num_paths]"
    begin += "; sys.path[:] = sys.argv[2 + num_paths :]\n"
    begin += "from antiphon.audio import sandbox\nfrom antiphon.sandbox import process\n"
    command = [sys.executable, "-I", "-c", begin + code, str(len(paths)), *map(str, paths)]
    done = subprocess.run([*command, *sys.path], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux only")
def test_hostile_files_take_no_more_memory_than_is_allowed(tmp_path: Path) -> None:
    code = """
data = open(paths[0], "rb").read()
status = open("/proc/self/status")
sandbox.prepare()
process.give_up_rights(128 * 1024 * 1024)
try:
    sandbox.decode_audio(data, sample_rate_hz=24000, max_duration_s=30)
except sandbox.InvalidRequestError:
    pass
print(status.read())
"""
    picture = id3_with_a_huge_picture(200_000_000)
    for data in (mp4_of_untold_samples(), mp4_of_untold_fragments(), picture + GOOD):
        hostile = tmp_path / "hostile"
        hostile.write_bytes(data)
        peak = re.search(r"VmHWM:\s+(\d+) kB", output_of_child(code, hostile))
        assert peak is not None
        assert int(peak[1]) < 256 * 1024


@pytest.mark.skipif(sys.platform == "win32", reason="rights are given up on POSIX only")
def test_a_child_opens_nothing(tmp_path: Path) -> None:
    code = """
import socket
process.give_up_rights(128 * 1024 * 1024)
for attempt in (lambda: open(paths[0]), socket.socket):
    try:
        attempt()
    except OSError:
        print("refused")
"""
    file = tmp_path / "file"
    file.touch()
    assert output_of_child(code, file) == "refused\n" * 2


def test_a_child_that_dies_is_a_refusal_and_the_next_one_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoder = DecodeSandbox()
    try:
        assert len(decoded(decoder, GOOD)) > 0
        assert decoder._sandbox._spare is not None
        os.kill(decoder._sandbox._spare.pid, signal.SIGKILL)
        os.waitid(os.P_PID, decoder._sandbox._spare.pid, os.WEXITED | os.WNOWAIT)
        assert len(decoded(decoder, GOOD)) > 0  # one that died while it waited is not used
        spare = decoder._sandbox._spare
        monkeypatch.setattr(process, "_MAX_WAIT_S", 0.0)
        with pytest.raises(InvalidRequestError, match="too much time"):
            decoded(decoder, GOOD)
        assert spare.poll() is not None
        monkeypatch.undo()
        assert len(decoded(decoder, GOOD)) > 0
    finally:
        decoder.close()


def test_a_child_that_cannot_start_is_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = DecodeSandbox()
    monkeypatch.setattr(process, "_CHILD", "")
    with pytest.raises(EngineError, match="failed to start"):
        decoded(decoder, GOOD)
    monkeypatch.setattr(sys, "executable", os.devnull)
    decoder.close()
    with pytest.raises(EngineError, match="No process"):
        decoded(decoder, GOOD)


def test_closing_ends_the_waiting_child() -> None:
    decoder = DecodeSandbox()
    decoded(decoder, GOOD)
    spare = decoder._sandbox._spare
    assert spare is not None
    decoder.close()
    assert spare.poll() is not None
    decoded(decoder, GOOD)  # a file under way is decoded to its end, and leaves nothing
    assert decoder._sandbox._spare is None
