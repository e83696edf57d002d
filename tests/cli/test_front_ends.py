"""Several front ends are one server: whichever answers, and whatever dies."""

import asyncio
import base64
import json
import os
import signal
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from openai import OpenAI
from prometheus_client.parser import text_string_to_metric_families
from websockets.sync.client import connect

from antiphon.cli.front_ends import FrontEndProcess
from tests.cli.conftest import DEADLINE_S
from tests.cli.front_end_servers import (
    LONG,
    NUM,
    SHORT,
    SPEECH,
    front_ends,
    held_files,
    popen,
    speak,
)
from tests.cli.test_serve import serving
from tests.front_ends import ServerProcesses
from tests.servers import wait_until
from tests.sockets import Client, audio

JOBS = f"{SPEECH}/jobs"


@pytest.fixture(scope="module")
def running() -> Generator[ServerProcesses, None, None]:
    with front_ends(NUM) as found:
        yield found


def said_in_events(server: ServerProcesses) -> bytes:
    """Return the audio of all events; how it is divided among them depends on who is in a hurry."""
    told = speak(server, stream=True, response_format="pcm").decode()
    events = [json.loads(each[6:]) for each in told.splitlines() if each.startswith("data: {")]
    assert events[-1]["type"] == "speech.audio.done"
    return b"".join(base64.b64decode(each.get("audio", "")) for each in events)


def say_by_socket(server: ServerProcesses) -> bytes:
    address = f"{server.url.replace('http', 'ws')}{SPEECH}/stream"
    with connect(address, max_size=None, proxy=None) as connection:
        talk = Client(connection)
        talk.send("session.config", response_format="pcm", stream_audio=True, seed=3)
        for word in ("Hello ", "there."):
            talk.send("input.text", text=word)
        talk.send("input.done")
        return audio(talk.until("session.done"))


def test_whoever_answers_says_the_same_as_a_single_process(running: ServerProcesses) -> None:
    with serving(popen) as (process, url):
        alone = ServerProcesses(process, url)
        whole, spoken = speak(alone), say_by_socket(alone)
        sse = said_in_events(alone)
    for _ in running.each():
        assert speak(running) == whole
        assert say_by_socket(running) == spoken
        assert said_in_events(running) == sse
        with OpenAI(base_url=f"{running.url}/v1", api_key="none") as client:
            heard = client.audio.speech.create(
                model="tts-1",
                voice="alloy",
                input="Hello there.",
                response_format="wav",
                extra_body={"seed": 3},
            )
            assert heard.content == whole


def num_held(pid: int, ports: set[int]) -> int:
    """Return how many of the connections from these ports of this machine a process holds."""
    held = held_files(pid)
    lines = [each.split() for each in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(
        int(remote.rpartition(":")[2], 16) in ports and f"socket:[{inode}]" in held
        for _, _, remote, *_, inode in (line[:10] for line in lines)
    )


def test_connections_that_come_at_once_are_shared_out(running: ServerProcesses) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(httpx.Client(base_url=running.url)) for _ in range(40)]
        with ThreadPoolExecutor(8) as pool:
            answers = [*pool.map(lambda client: client.get("/health"), clients)]
        assert {each.status_code for each in answers} == {200}
        streams = [each.extensions["network_stream"] for each in answers]
        ports = {each.get_extra_info("client_addr")[1] for each in streams}
        assert len(ports) == 40
        taken = [num_held(pid, ports) for pid in running.front_ends()]
        assert sum(taken) == 40
        assert min(taken) > 0


def counters(server: ServerProcesses) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(server.scraped())
        for sample in family.samples
        if family.type in ("counter", "histogram") and not sample.name.endswith("_created")
    }


@pytest.mark.slow  # a front end is started again
def test_a_front_end_that_is_killed_takes_its_own_listeners_only_and_no_count(
    running: ServerProcesses,
) -> None:
    with ExitStack() as stack:
        streams = []
        for _ in running.each():
            answer = stack.enter_context(
                httpx.stream("POST", running.url + SPEECH, json=LONG, timeout=DEADLINE_S)
            )
            streams.append(answer.iter_raw())
            next(streams[-1])
        before = counters(running)
        pids = running.front_ends()
        os.kill(pids[1], signal.SIGKILL)
        with pytest.raises(httpx.RemoteProtocolError):
            list(streams[1])
        after = counters(running)
        gone = [key for key in before if dict(key[1]).get("pid") == str(pids[1])]
        assert all(after[key] >= before[key] for key in before if key not in gone)
        for number in (0, 2):
            assert next(streams[number])
        assert speak(running)
        running.wait_for(NUM + 2, instead_of=pids[1])
        after = counters(running)
        assert all(after[key] >= before[key] for key in before if key not in gone)
    wait_until(lambda: running.value("antiphon_engine_requests_running") == 0)
    wait_until(lambda: running.value("antiphon_speech_active") == 0)
    for _ in running.each():
        assert speak(running)


@pytest.mark.slow  # long streams, whole
def test_streams_go_on_when_the_engine_is_killed(running: ServerProcesses) -> None:
    sent = {**SHORT, "input": "Hello there. " * 300}  # more than sockets hold
    expected, short = speak(running, **sent), speak(running)
    with ExitStack() as stack:
        heard: list[bytes] = []
        streams = []
        for _ in running.each():
            answer = stack.enter_context(
                httpx.stream("POST", running.url + SPEECH, json=sent, timeout=DEADLINE_S)
            )
            streams.append(answer.iter_raw())
            heard.append(next(streams[-1]))
        before = running.engine()
        os.kill(before, signal.SIGKILL)
        assert [first + b"".join(rest) for first, rest in zip(heard, streams, strict=True)] == [
            expected
        ] * NUM
    assert running.engine() != before
    running.wait_for(NUM + 2)
    assert running.value("antiphon_stream_migrations_total") >= 1
    for _ in running.each():
        assert speak(running) == short


@pytest.mark.slow  # a job, and a front end that is started again
def test_a_job_is_done_once_and_by_another_front_end_if_its_own_dies(
    running: ServerProcesses,
) -> None:
    with running.only(0) as pid:
        sent = {**SHORT, "input": "Hello there. " * 1200}  # not done before it is seen to run
        id = httpx.post(running.url + JOBS, json=sent).json()["id"]
        wait_until(lambda: job(running, id)["status"] == "running")
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: job(running, id)["status"] == "completed")
    running.wait_for(NUM + 2)
    contents = set()
    for _ in running.each():
        content = httpx.get(f"{running.url}{JOBS}/{id}/content")
        assert content.status_code == 200
        contents.add(content.content)
    assert len(contents) == 1
    assert running.value("antiphon_jobs_ended_total") == 1


def job(server: ServerProcesses, id: str) -> dict[str, Any]:
    with suppress(httpx.TransportError):  # its front end was killed
        answer: dict[str, Any] = httpx.get(f"{server.url}{JOBS}/{id}").json()
        return answer
    return {"status": "unknown"}


@pytest.mark.slow  # hundreds of requests
def test_memory_and_descriptors_stay_flat(running: ServerProcesses) -> None:
    def resources() -> tuple[dict[str, int], dict[str, int]]:
        wait_until(lambda: running.value("antiphon_speech_active") == 0)
        pids = running.pids()
        files = {name: len(os.listdir(f"/proc/{pid}/fd")) for name, pid in pids.items()}
        pages = {
            name: int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            for name, pid in pids.items()
        }
        return files, pages

    def work(number: int) -> None:
        if number % 3:
            speak(running, seed=number)
        elif number % 2:
            say_by_socket(running)
        else:
            with httpx.stream("POST", running.url + SPEECH, json=LONG) as left:
                next(left.iter_raw())

    with ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            list(pool.map(work, range(150)))
        files, pages = resources()
        list(pool.map(work, range(300)))
        wait_until(lambda: all(resources()[0][name] <= files[name] + 3 for name in files))
    grown = {name: 4096 * (resources()[1][name] - pages[name]) for name in pages}
    assert all(number < 48 * 2**20 for number in grown.values()), grown


class Child:
    def __init__(self) -> None:
        self.is_stopped = False

    async def reported(self) -> None:
        await asyncio.Event().wait()

    async def stop(self, grace_s: float) -> None:
        del grace_s
        self.is_stopped = True


@pytest.mark.anyio
@pytest.mark.parametrize("are_sockets_closed", [False, True])
async def test_a_signal_during_a_start_ends_what_was_started(
    monkeypatch: pytest.MonkeyPatch, are_sockets_closed: bool
) -> None:
    plan = cast("Any", SimpleNamespace(name="front-end-0"))
    process, child = FrontEndProcess(plan, cast("Any", None), {}), Child()

    async def launch() -> Child:
        process.is_stopping = True
        process.send_signal(signal.SIGTERM)  # to no process
        if are_sockets_closed:
            raise OSError("Bad file descriptor")
        return child

    monkeypatch.setattr(process, "_launch", launch)
    async with asyncio.timeout(5):
        await process.keep_alive()
    assert child.is_stopped != are_sockets_closed
