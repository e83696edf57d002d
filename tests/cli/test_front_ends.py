"""Several front ends are one server: whichever answers, whatever dies, and until the end."""

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI
from prometheus_client.parser import text_string_to_metric_families
from websockets.sync.client import connect

from antiphon.fabric.runtime_folder import runtime_folder
from tests.cli.conftest import DEADLINE_S, Run
from tests.cli.test_serve import serving
from tests.front_ends import ServerProcesses
from tests.recordings import RECORDING
from tests.servers import wait_until
from tests.sockets import Client, audio

NUM = 3
SPEECH = "/v1/audio/speech"
JOBS = f"{SPEECH}/jobs"
LONG = {"input": "Hello there. " * 7000, "response_format": "wav"}
SHORT = {"input": "Hello there.", "response_format": "wav", "seed": 3}
SETTINGS = f"""
[server]
front_ends = {NUM}
api_keys = ["sesame owner=one", "other owner=two"]
[limits]
max_requests = 4
key_concurrency = 3
"""


def popen(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "antiphon", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def front_ends(
    number: int, *arguments: str, key: str = "none", model: str = "toy"
) -> Generator[ServerProcesses, None, None]:
    """Run a server of so many front ends; it ends well if it still runs."""
    arguments = ("--front-ends", str(number), *arguments)
    with serving(popen, *arguments, model=model) as (process, url):
        running = ServerProcesses(process, url, key)
        running.wait_for(number + 2)
        yield running
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 0
            assert "Traceback" not in errors


@pytest.fixture(scope="module")
def running() -> Generator[ServerProcesses, None, None]:
    """A server without limits."""
    with front_ends(NUM) as found:
        yield found


def speak(server: ServerProcesses, **more: Any) -> bytes:
    answer = httpx.post(server.url + SPEECH, json={**SHORT, **more}, timeout=DEADLINE_S)
    assert answer.status_code == 200, answer.text
    return answer.content


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


def held_files(pid: int) -> set[str]:
    """Return what a process has open: paths of files, and sockets as ``"socket:[inode]"``."""
    held = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it has been closed meanwhile
            held.add(os.readlink(each))
    return held


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
        running.wait_for(NUM + 2)
        after = counters(running)
        assert all(after[key] >= before[key] for key in before if key not in gone)
        assert pids[1] not in running.front_ends()
    wait_until(lambda: running.value("antiphon_engine_requests_running") == 0)
    wait_until(lambda: running.value("antiphon_speech_active") == 0)
    for _ in running.each():
        assert speak(running)


@pytest.mark.slow  # long streams, whole
def test_streams_go_on_when_the_engine_is_killed(running: ServerProcesses) -> None:
    sent = {**SHORT, "input": "Hello there. " * 800}
    expected = speak(running, **sent)
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
        assert speak(running, **sent) == expected


@pytest.mark.slow  # a job, and a front end that is started again
def test_a_job_is_done_once_and_by_another_front_end_if_its_own_dies(
    running: ServerProcesses,
) -> None:
    with running.only(0) as pid:
        sent = {**SHORT, "input": "Hello there. " * 2400}  # not done before it is seen to run
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


@pytest.mark.slow  # a server of its own, and a front end that is started again
def test_limits_hold_for_all_front_ends_together_and_not_for_the_dead(tmp_path: Path) -> None:
    config = tmp_path / "antiphon.toml"
    config.write_text(SETTINGS)
    one, two = ({"Authorization": f"Bearer {key}"} for key in ("sesame", "other"))
    with (
        front_ends(NUM, "--config", str(config), key="sesame") as server,
        ExitStack() as stack,
    ):

        def hold(headers: dict[str, str]) -> int:
            answer = stack.enter_context(
                httpx.stream("POST", server.url + SPEECH, json=LONG, headers=headers)
            )
            return answer.status_code

        assert httpx.post(server.url + SPEECH, json=SHORT).status_code == 401
        for _ in server.each():
            assert hold(one) == 200
        for _ in server.each():
            assert hold(one) == 429, "the key has its three"
        with server.only(1):
            assert hold(two) == 200
        for _ in server.each():
            assert hold(two) == 503, "all places are taken"
        os.kill(server.front_ends()[0], signal.SIGKILL)
        server.wait_for(NUM + 2)
        with server.only(2):
            assert hold(one) == 200, "what the dead one held is free"
            assert hold(one) == 503, "it has the last place"


@pytest.mark.slow  # front ends are started one after the other
def test_all_are_started_anew_without_a_lost_stream_and_read_keys_again(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("sesame\n")
    arguments = ("--api-keys-file", str(keys))
    with (
        front_ends(2, *arguments, key="sesame") as server,
        ExitStack() as stack,
        ThreadPoolExecutor(2) as pool,
    ):

        def status(key: str) -> int:
            headers = {"Authorization": f"Bearer {key}"}
            return httpx.post(server.url + SPEECH, json=SHORT, headers=headers).status_code

        def begin() -> Iterator[bytes]:
            """Return a stream that waits for its listener: it does not fit what lies between."""
            headers = {"Authorization": "Bearer sesame"}
            sent = {**SHORT, "input": "Hello there. " * 1500}
            asked = httpx.stream(
                "POST", server.url + SPEECH, json=sent, headers=headers, timeout=DEADLINE_S
            )
            return stack.enter_context(asked).iter_raw()

        def listen(stream: Iterator[bytes]) -> tuple[int, str]:
            content = b"".join(stream)
            return len(content), sha256(content).hexdigest()

        assert (status("sesame"), status("second")) == (200, 401)
        before = server.front_ends()
        streams = [begin() for _ in server.each()]
        wait_until(lambda: server.value("antiphon_speech_active") == 2)
        keys.write_text("sesame\nsecond\n")
        server.process.send_signal(signal.SIGHUP)
        heard = [pool.submit(listen, stream) for stream in streams]
        while not (
            gone := len(server.front_ends()) == 2 and not {*before} & {*server.front_ends()}
        ):
            assert status("sesame") == 200, "somebody always answers"
        assert gone
        assert status("second") == 200
        assert len({each.result() for each in heard}) == 1
        assert heard[0].result()[0] > 4_000_000


@pytest.mark.slow  # processes are started and killed
def test_a_parent_that_is_killed_leaves_nothing() -> None:
    with serving(popen, "--front-ends", "2") as (process, url):
        server = ServerProcesses(process, url)
        server.wait_for(4)
        pids = server.pids().values()
        (lock,) = (Path(each) for each in held_files(process.pid) if each.endswith("/lock"))
        assert lock.is_file()
        process.send_signal(signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, pids)))

        def is_removed() -> bool:
            with runtime_folder():  # which removes what is left, once no thread is left of it
                return not lock.exists()

        wait_until(is_removed)


def is_alive(pid: int) -> bool:
    """Whether a process lives; a killed one stays in the list until it is waited for."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.slow  # a checkpoint is made, and read by four processes
def test_what_cannot_be_loaded_is_told_as_by_a_single_process(
    run: Run, checkpoint: Any, tmp_path: Path
) -> None:
    made = checkpoint("tiny", "base")
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in made.iterdir():
        if file.is_dir():
            (broken / file.name).symlink_to(file)
        else:
            content = file.read_bytes()
            is_weights = file.name == "model.safetensors"
            (broken / file.name).write_bytes(
                content[: len(content) // 2] if is_weights else content
            )
    told = []
    for number in (0, 2):
        done = run("serve", str(broken), "--port", "0", "--front-ends", str(number))
        assert done.exit_code == 1
        told.append([line for line in done.stderr.splitlines() if line.startswith("antiphon:")])
    assert len(told[0]) == 1
    assert told[0] == told[1]


@pytest.mark.slow  # two servers of a real model
def test_real_speech_is_the_same(run: Run) -> None:
    with serving(popen, model="hibari") as (process, url):
        whole = speak(ServerProcesses(process, url))
        process.kill()
    with front_ends(2, model="hibari") as server:
        for _ in server.each():
            assert speak(server) == whole


@pytest.mark.slow  # a checkpoint is made, and read by four processes
def test_a_voice_that_one_has_taken_in_speaks_at_once_everywhere(
    checkpoint: Any, tmp_path: Path
) -> None:
    source = str(checkpoint("tiny", "base"))
    arguments = ("--device", "cpu", "--data-dir", str(tmp_path / "data"))
    with front_ends(NUM, *arguments, model=source) as server:
        voices = f"{server.url}/v1/audio/voices"
        with server.only(0):
            sent = {"name": "guest", "consent": "yes"}
            files = {"audio_sample": ("voice.wav", RECORDING, "audio/wav")}
            answer = httpx.post(voices, data=sent, files=files, timeout=DEADLINE_S)
            assert answer.status_code in (200, 201), answer.text
        heard = {speak(server, voice="guest") for _ in server.each()}
        assert len(heard) == 1
        with server.only(1):
            name = answer.json().get("voice", {}).get("name", "guest")
            assert httpx.delete(f"{voices}/{name}").status_code == 200
        for _ in server.each():
            gone = httpx.post(server.url + SPEECH, json={**SHORT, "voice": "guest"})
            assert gone.status_code == 404


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
