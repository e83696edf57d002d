"""With ``--url``, commands make of a running server what they make in their own process."""

from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from antiphon.config import ModelSettings, ServerSettings, Settings
from tests.cli.conftest import Run
from tests.servers import start_server
from tests.videos import png

KEY = "sesame"
HERE = ("--model", "toy")


@pytest.fixture(scope="module")
def there() -> Generator[tuple[str, ...], None, None]:
    settings = Settings(model=ModelSettings(source="toy"), server=ServerSettings(api_keys=(KEY,)))
    with start_server(settings) as running:
        yield ("--url", f"{running.base_url.removeprefix('http://')}/v1", "--api-key", KEY)


@pytest.fixture
def files(tmp_path: Path, run: Run, there: tuple[str, ...]) -> Callable[..., list[bytes]]:
    """Run a command here and there; return the files that it writes."""

    def written(suffix: str, *command: str) -> list[bytes]:
        found = []
        for place in (HERE, there):
            path = tmp_path / f"made{suffix}"
            done = run(*command, "--seed", "3", "-o", str(path), *place)
            assert done.exit_code == 0, done.stderr
            found.append(path.read_bytes())
        return found

    return written


def test_speech_is_the_same(files: Callable[..., list[bytes]]) -> None:
    flags = ("--voice", "bass", "--speed", "1.5", "--sample-rate", "16000")
    here, there = files(".wav", "say", "Hello there.", *flags)
    assert here == there
    here, there = files(".flac", "say", "Hello there.")
    assert here == there


def test_images_and_videos_are_the_same(
    files: Callable[..., list[bytes]], tmp_path: Path, run: Run, there: tuple[str, ...]
) -> None:
    source = tmp_path / "source.png"
    source.write_bytes(png())
    flags = ("--size", "32x24", "--steps", "4", "--negative-prompt", "dogs")
    for more in ((), ("--image", str(source))):
        here, remote = files(".webp", "image", "a cat", *flags, *more)
        assert here == remote
    here, remote = files(".mp4", "video", "a cat", *flags, "--seconds", "0.5", "--fps", "8")
    assert here == remote


def test_answers_are_the_same(run: Run, there: tuple[str, ...]) -> None:
    for flags in ((), ("--max-tokens", "4")):
        here, remote = (
            run("chat", "Hé 😀", "--seed", "1", *flags, *place) for place in (HERE, there)
        )
        assert here.stdout == remote.stdout != ""
        assert ("cut off" in here.stderr, "cut off" in remote.stderr) == (bool(flags),) * 2
    talk = run("chat", *there, input="x\n" + "y" * 9000 + "\nz\n")
    assert talk.stdout == "You said: x\nYou said: z\n"
    assert "context has room for" in talk.stderr, "a message that is refused ends nothing"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--voice", "nobody"), "There is no voice 'nobody'"),
        (("--model", "nothing"), "The model 'nothing' does not exist"),
        (("--api-key", "wrong"), "The API key is wrong"),
        (("--url", "http://127.0.0.1:1"), "http://127.0.0.1:1: does not answer"),
        (("--url", "ftp://127.0.0.1"), "unsupported protocol"),
    ],
)
def test_what_a_server_refuses_is_told_in_a_line(
    run: Run, there: tuple[str, ...], tmp_path: Path, flags: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "speech.wav"
    done = run("say", "Hello.", "-o", str(path), *there, *flags)
    assert done.exit_code == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not path.exists()


def test_another_server_is_told_apart(run: Run, tmp_path: Path) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        done = run("say", "Hello.", "-o", str(tmp_path / "speech.wav"), "--url", url)
    assert done.exit_code == 1
    assert f"{url} is not a server of this kind" in done.stderr
    assert list(tmp_path.iterdir()) == []
