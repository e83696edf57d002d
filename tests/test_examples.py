"""The examples of docs/clients.md run as they stand, against a server of the default model."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from antiphon.config import ModelSettings, ModelsSettings, Settings
from tests.decoding import decoded
from tests.servers import RunningServer, server_of, start_server
from tests.test_readme import ROOT, SHOWN_URL, playable_files, run

PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "examples"


server = server_of(Settings())


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_writes_files_and_counts_events(server: RunningServer, tmp_path: Path) -> None:
    run(["bash", str(EXAMPLES / "speak.sh"), f"{server.base_url}/v1", 'He said "so".'], tmp_path)
    assert playable_files(tmp_path) == ["hello.mp3", "hello.pcm"]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_node_takes_a_stream(server: RunningServer, tmp_path: Path) -> None:
    run(["node", str(EXAMPLES / "speak.mjs"), f"{server.base_url}/v1"], tmp_path)
    assert playable_files(tmp_path) == ["hello.wav"]


def test_words_stream_in(server: RunningServer, tmp_path: Path) -> None:
    url = f"ws://127.0.0.1:{server.port}/v1/audio/speech/stream"
    words = f"echo 'The tide comes in.' | {sys.executable} {EXAMPLES / 'stream_text.py'} {url}"
    run(["sh", "-c", words], tmp_path)
    assert playable_files(tmp_path) == ["words.wav"]


@pytest.mark.slow  # each imports a framework
@pytest.mark.clients
@pytest.mark.parametrize(
    ("name", "package"),
    [("livekit_speech.py", "livekit.plugins.openai"), ("pipecat_speech.py", "pipecat.frames")],
)
def test_frameworks_speak(name: str, package: str, server: RunningServer, tmp_path: Path) -> None:
    pytest.importorskip(package, reason="needs the extra 'clients'")
    run([sys.executable, str(EXAMPLES / name), f"{server.base_url}/v1"], tmp_path)
    assert playable_files(tmp_path) == ["hello.wav"]


@pytest.mark.slow  # installs the packages of npm
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_the_ai_sdk_chats_and_speaks(tmp_path: Path) -> None:
    packages = ["npm", "install", "--no-audit", "--no-fund", "ai@7", "@ai-sdk/openai@4"]
    if subprocess.run(packages, cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("npm's registry cannot be reached")
    shutil.copy(EXAMPLES / "ai_sdk.mjs", tmp_path)
    models = ModelsSettings(more=(ModelSettings(source="toy"),))
    with start_server(Settings(models=models)) as server:
        done = subprocess.run(
            ["node", "ai_sdk.mjs", f"{server.base_url}/v1", "toy"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "You said: Greet me in a sentence."
    samples, rate_hz = decoded((tmp_path / "hello.mp3").read_bytes(), "mp3", 24_000)
    assert len(samples) / rate_hz > 1.0


def test_the_settings_of_other_programs_lead_to_speech(server: RunningServer) -> None:
    """What SillyTavern, LibreChat and AnythingLLM send with the settings of the page."""
    endpoint = re.search(r"^\| Provider Endpoint \| `(\S+)` \|$", PAGE, re.MULTILINE)
    assert endpoint is not None
    told = dict(re.findall(r"^TTS_OPEN_AI_COMPATIBLE_(\w+)=(\S+)$", PAGE, re.MULTILINE))
    libre = yaml.safe_load(re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)[0])
    openai = libre["speech"]["tts"]["openai"]
    for url, model, voice in (
        (endpoint[1], "tts-1", "heart"),
        (f"{told['ENDPOINT']}/audio/speech", told["MODEL"], told["VOICE_MODEL"]),
        (openai["url"], openai["model"], openai["voices"][0]),
    ):
        here = re.sub(r"http://[\w.]+:8000", server.base_url, url)
        body = {"model": model, "input": "Hello.", "voice": voice, "response_format": "mp3"}
        answer = httpx.post(here, json=body, timeout=60).raise_for_status()
        assert answer.headers["content-type"] == "audio/mpeg"


def test_open_webui_finds_what_its_settings_name(server: RunningServer) -> None:
    """It reads both lists from the base URL, and posts the model and the voice of its settings."""
    told = dict(re.findall(r"^AUDIO_TTS_(\w+)=(\S+)$", PAGE, re.MULTILINE))
    url = told["OPENAI_API_BASE_URL"].replace(SHOWN_URL, server.base_url)
    headers = {"Authorization": f"Bearer {told['OPENAI_API_KEY']}"}
    models = httpx.get(f"{url}/audio/models", headers=headers).json()["models"]
    assert told["MODEL"] in {model["id"] for model in models}
    voices = httpx.get(f"{url}/audio/voices", headers=headers).json()["voices"]
    assert told["VOICE"] in {voice["id"] for voice in voices}
    body = {"model": told["MODEL"], "voice": told["VOICE"], "input": "Hello."}
    answer = httpx.post(f"{url}/audio/speech", json=body, headers=headers, timeout=60)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "audio/mpeg"


def test_every_client_is_on_the_page() -> None:
    clients = [path.name for path in EXAMPLES.iterdir() if not path.name.startswith(("agg", "dis"))]
    assert not [name for name in clients if f"](../examples/{name})" not in PAGE]
