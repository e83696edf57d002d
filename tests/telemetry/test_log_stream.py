"""Logs that nobody reads hold up nothing, and what is read again says what is missing."""

import io
import logging
import os
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TextIO

import pytest

from antiphon.telemetry.log_stream import LogStream
from tests.servers import DEADLINE_S, wait_until

PROGRAM = """
import logging, sys
from antiphon.telemetry.logs import configure_logging
configure_logging("info")
for number in range(4000):
    logging.info("%d %s", number, "a" * 100)
print("done", flush=True)
"""


@pytest.fixture
def pipe() -> Generator[tuple[TextIO, TextIO], None, None]:
    """Both ends of a pipe: what reads, and what writes."""
    ends = os.pipe()
    with os.fdopen(ends[0]) as reader, os.fdopen(ends[1], "w") as writer:
        yield reader, writer


def test_lines_arrive_in_order(pipe: tuple[TextIO, TextIO]) -> None:
    reader, writer = pipe
    stream = LogStream(writer)
    for number in range(100):
        stream.write(f"{number}\n")
    assert stream.drain(DEADLINE_S)
    assert [reader.readline() for _ in range(100)] == [f"{number}\n" for number in range(100)]


def test_a_pipe_that_nobody_reads_holds_up_nobody(
    pipe: tuple[TextIO, TextIO], caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = pipe
    stream = LogStream(writer, max_characters=200_000)
    lines = [f"{number:05} {'a' * 93}\n" for number in range(5_000)]
    for line in lines:
        stream.write(line)
    assert not stream.drain(0.0)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(reader.readlines)
        assert stream.drain(DEADLINE_S)
        writer.close()
        kept = reading.result(DEADLINE_S)
    assert 2_000 <= len(kept) < 5_000
    assert kept == sorted(kept)
    assert set(kept) <= set(lines)

    def num_dropped() -> int:
        return sum(int(each.getMessage().split()[0]) for each in caplog.records)

    wait_until(lambda: num_dropped() == 5_000 - len(kept))


def test_a_reader_that_is_gone_is_no_fault(pipe: tuple[TextIO, TextIO]) -> None:
    reader, writer = pipe
    reader.close()
    stream = LogStream(writer)
    stream.write("a\n")
    assert stream.drain(DEADLINE_S)


@pytest.mark.parametrize("has_file", [False, True])
def test_a_stream_that_was_closed_is_no_fault(has_file: bool, tmp_path: Path) -> None:
    closed = (tmp_path / "log").open("w") if has_file else io.StringIO()
    stream = LogStream(closed)
    stream.write("before\n")
    assert stream.drain(DEADLINE_S)
    closed.close()
    stream.write("after\n")
    assert stream.drain(DEADLINE_S), "its thread has not died"


@pytest.mark.parametrize("is_read", [True, False])
def test_a_process_ends_whether_or_not_its_log_is_read(is_read: bool) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    if is_read:
        told, logged = process.communicate(timeout=DEADLINE_S)
        assert told == "done\n"
        assert len(logged.splitlines()) == 4_000
    else:
        assert process.wait(DEADLINE_S) == 0
        assert process.stdout.read() == "done\n"
        process.communicate()
    assert process.returncode == 0


def test_logging_calls_it_like_a_stream(pipe: tuple[TextIO, TextIO]) -> None:
    reader, writer = pipe
    handler = logging.StreamHandler(LogStream(writer))
    handler.emit(logging.LogRecord("test", logging.INFO, "", 0, "said", (), None))
    assert reader.readline() == "said\n"
