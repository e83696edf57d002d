"""Values that a shell completes, asked for as bash asks."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.families.installed import installed_models
from antiphon.families.registry import FAMILIES
from antiphon.formats import AudioFormat
from antiphon.placement.cards import CARDS, card_of
from tests.cli.conftest import Run
from tests.servers import RunningServer

Complete = Callable[[str], list[str]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's cache of their own, and no variables that name others."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("HF_HOME", "HF_HUB_CACHE", "ANTIPHON_MODEL_SOURCE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.fixture
def complete(run: Run, monkeypatch: pytest.MonkeyPatch) -> Complete:
    def complete(line: str) -> list[str]:
        """Return what the last word of a line may become."""
        with monkeypatch.context() as patched:
            patched.setenv("_ANTIPHON_COMPLETE", "complete_bash")
            patched.setenv("COMP_WORDS", f"antiphon {line}")
            patched.setenv("COMP_CWORD", str(len(line.split(" "))))
            patched.setattr(sys, "argv", ["antiphon"])
            return run().stdout.split()

    return complete


def write_checkpoint(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"architectures": ["Unknown"]}))
    return folder


def test_models_are_built_in_downloaded_or_folders(home: Path, complete: Complete) -> None:
    write_checkpoint(home / "here" / "hertz")
    (home / "here" / "house").mkdir()
    hub = home / "cache" / "huggingface" / "hub"
    write_checkpoint(hub / "models--acme--herald-v1--b" / "snapshots" / "abc")
    (hub / "models--acme--half" / "snapshots" / "abc").mkdir(parents=True)
    named = ["hibari", "toy", *sorted(installed_models().names)]
    assert complete("serve ") == [*named, "acme/herald-v1--b", "hertz"]
    assert complete("serve h") == ["hibari", "hertz"]
    for command in ("say x --model", "chat --model", "image x --model", "demo", "voices --model"):
        assert complete(f"{command} a") == ["acme/herald-v1--b"], command
    assert complete(f"serve {home}/h") == []
    assert complete(f"models inspect {home}/here/") == [f"{home}/here/hertz"]
    (home / "here" / "heron.gguf").touch()
    found = [f"{home}/here/{name}" for name in ("heron.gguf", "hertz")]
    assert complete(f"models fit {home}/here/he") == found
    assert complete(f"models fit {home}/nowhere/") == []


def test_voices_are_those_of_the_model(complete: Complete, run: Run, home: Path) -> None:
    assert complete("say x --voice ") == ["heart"]
    assert complete("say x --model toy --voice ") == ["sine", "alto", "bass"]
    assert complete("say x --model toy --voice a") == ["alto"]
    folder = home / "here" / "made"
    run("dev", "make-checkpoint", str(folder))
    names = complete("say x --model made --voice ")
    listed = json.loads(run("voices", "--model", "made", "--json").stdout)
    assert names == [voice["id"] for voice in listed]
    config = json.loads((folder / "config.json").read_text())
    speakers = config["talker_config"]["spk_id"]
    speakers["zoe"] = speakers[names[0]]
    (folder / "config.json").write_text(json.dumps(config))
    assert complete("say x --model made --voice ") == [*names, "zoe"], "the checkpoint has changed"


@pytest.mark.parametrize("model", ["nowhere/none", "acme/none@main", "nothing", "image"])
def test_a_model_without_voices_has_none(complete: Complete, run: Run, model: str) -> None:
    if model == "image":
        run("dev", "make-checkpoint", model, "--family", "qwen_image")
    assert complete(f"say x --model {model} --voice ") == []


def test_a_model_without_voices_is_refused(run: Run) -> None:
    run("dev", "make-checkpoint", "image", "--family", "qwen_image")
    refused = run("voices", "--model", "image")
    assert refused.exit_code == 1
    assert refused.stderr == "antiphon: 'image' has no voices: it serves image.\n"


def test_a_downloaded_model_is_read_where_it_is(complete: Complete, run: Run, home: Path) -> None:
    folder = home / "cache" / "huggingface" / "hub" / "models--acme--voice"
    run("dev", "make-checkpoint", str(folder / "snapshots" / "abc"))
    assert complete("say x --model acme/voice --voice ") == []
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    assert "vivian" in complete("say x --model acme/voice --voice ")


def test_a_running_server_is_asked(complete: Complete, server: RunningServer) -> None:
    at = f"say x --url {server.base_url}"
    assert complete(f"{at} --model ") == ["toy"]
    assert complete(f"{at} --voice ") == ["sine", "alto", "bass"]
    assert complete(f"{at} --model toy --voice b") == ["bass"]
    assert complete(f"{at} --model nothing --voice b") == []
    assert complete("say x --url http://127.0.0.1:9 --voice ") == []


def test_fixed_values(complete: Complete) -> None:
    assert complete("say x --format ") == list(AudioFormat)
    assert complete("serve --device c") == ["cpu", "cuda"]
    assert complete("serve --output-modalities v") == ["video"]


@pytest.mark.parametrize("command", ["dev make-checkpoint x --family", "dev check-family"])
def test_families(complete: Complete, command: str) -> None:
    assert complete(f"{command} ") == [*FAMILIES]


def test_tasks_are_those_that_the_family_makes(complete: Complete) -> None:
    assert complete("dev make-checkpoint x --task ") == ["custom_voice", "voice_design", "base"]
    assert complete("dev make-checkpoint x --family mimo_audio --task c") == ["custom_voice"]
    assert "t2v-2.1" in complete("dev make-checkpoint x --family wan_video --task t2v")
    assert complete("dev make-checkpoint x --family hibari --task ") == []


def test_cards_are_words_that_name_one(complete: Complete) -> None:
    names = complete("models fit x --card ")
    assert names[0] == "cpu"
    assert [card_of(name) for name in names[1:]] == list(CARDS)
    assert "rtx-4090" in complete("models fit x --card rtx")


def test_nothing_heavy_is_imported(home: Path) -> None:
    """PyTorch never is; once a list has been read, neither are families."""
    for heavy in ("torch", "antiphon.config"):
        for line, told in (("say x --voice ", "heart"), ("serve t", "toy")):
            code = (
                "import sys; sys.argv = ['antiphon']\n"
                "from antiphon.cli.main import app\n"
                "try: app(prog_name='antiphon')\n"
                f"finally: assert {heavy!r} not in sys.modules"
            )
            environment = {
                "PYTHONPATH": ":".join(sys.path),
                "XDG_CACHE_HOME": str(home / "cache"),
                "_ANTIPHON_COMPLETE": "complete_bash",
                "COMP_WORDS": f"antiphon {line}",
                "COMP_CWORD": str(len(line.split(" "))),
            }
            command = [sys.executable, "-c", code]
            answer = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert answer.stdout.split() == [told], answer.stderr
            assert "AssertionError" not in answer.stderr
