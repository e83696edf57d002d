"""What the README and the examples show is run, against a server of the default model."""

import gc
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from antiphon.config import Settings
from antiphon.formats import AudioFormat
from tests.clients.wyoming import WyomingClient, free_port, proxy_python
from tests.decoding import decoded
from tests.servers import RunningServer, server_of

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CLIENTS = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
SHOWN_URL = "http://127.0.0.1:8000"
DEADLINE_S = 120


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def title(block: str) -> str:
    return block.splitlines()[0]


server = server_of(Settings())


def run(command: list[str], folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def playable_files(folder: Path) -> list[str]:
    """Return the names of all files in ``folder``, after playing them."""
    names = sorted(path.name for path in folder.iterdir())
    for name in names:
        path = folder / name
        samples, rate_hz = decoded(path.read_bytes(), path.suffix[1:], 24_000)
        assert len(samples) / rate_hz > 0.5, f"{name} is too short for its text"
    return names


@pytest.mark.filterwarnings("ignore")  # clients warn of their own affairs
@pytest.mark.parametrize("code", blocks("python"), ids=title)
def test_the_readmes_python_runs(
    code: str, server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, which has imported already what each program would need seconds for."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    exec(code.replace(SHOWN_URL, server.base_url), names)
    names.clear()
    gc.collect()  # clients that are left open are closed here, where their warnings are ignored
    playable_files(tmp_path)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_readmes_curl_writes_an_mp3(server: RunningServer, tmp_path: Path) -> None:
    [command] = [code for code in blocks("bash") if code.startswith("curl")]
    run(["sh", "-c", command.replace(SHOWN_URL, server.base_url)], tmp_path)
    assert playable_files(tmp_path) == ["hello.mp3"]


@pytest.mark.slow  # installs the proxy into an environment of its own
@pytest.mark.clients
def test_home_assistant_speaks_while_text_arrives(server: RunningServer) -> None:
    """Its assistants write word by word: what is complete is spoken while the rest is written."""
    [command] = [code for code in blocks("bash", CLIENTS) if "wyoming_openai" in code]
    port = free_port()
    command = command.replace(SHOWN_URL, server.base_url).replace(
        "0.0.0.0:10300", f"127.0.0.1:{port}"
    )
    _, *arguments = shlex.split(command.replace("\\\n", " "))
    with subprocess.Popen([proxy_python(), *arguments]) as proxy:
        try:
            with closing(WyomingClient(port)) as client:
                client.send("describe")
                [*_, info] = client.until("info")
                [program] = info.data["tts"]
                assert program["supports_synthesize_streaming"] is True
                voices = [voice["name"] for voice in program["voices"]]
                assert "heart" in voices

                client.send("synthesize-start", {"voice": {"name": "heart"}})
                client.send("synthesize-chunk", {"text": "The first sentence. The second"})
                [*_, first] = client.until("audio-chunk")
                client.send("synthesize-chunk", {"text": " one is longer."})
                client.send("synthesize-stop")
                heard = [first, *client.until("synthesize-stopped")]
        finally:
            proxy.terminate()
    audio = b"".join(event.payload for event in heard if event.type == "audio-chunk")
    assert first.data["rate"] == 24_000
    assert len(audio) / 2 / 24_000 > 1.0


def test_every_format_is_documented() -> None:
    shown = dict(re.findall(r"^\| `(\w+)`.*\| `(audio/\w+)` \|$", API, re.MULTILINE))
    assert shown == {format.value: format.media_type for format in AudioFormat}


@pytest.mark.parametrize(
    ("name", "files"),
    [("openai_sdk.py", ["hello.mp3"]), ("stream_to_wav.py", ["tide.wav"])],
)
def test_the_client_examples_run(
    name: str, files: list[str], server: RunningServer, tmp_path: Path
) -> None:
    run([sys.executable, str(ROOT / "examples" / name), f"{server.base_url}/v1"], tmp_path)
    assert playable_files(tmp_path) == files


def test_the_offline_example_runs(tmp_path: Path) -> None:
    run([sys.executable, str(ROOT / "examples" / "offline.py")], tmp_path)
    assert playable_files(tmp_path) == ["answer.wav", "question.wav"]
