"""What front ends hold together: limits, keys, voices, what they read, their start and end."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.fabric.cluster.runtime_folder import runtime_folder
from tests.cli.conftest import DEADLINE_S, Run
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
from tests.recordings import RECORDING
from tests.servers import wait_until

SETTINGS = f"""
[server]
front_ends = {NUM}
api_keys = ["sesame owner=one", "other owner=two"]
[limits]
max_requests = 4
key_concurrency = 3
"""


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
        doomed = server.front_ends()[0]
        os.kill(doomed, signal.SIGKILL)
        server.wait_for(NUM + 2, instead_of=doomed)
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
            time.sleep(0.02)
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
