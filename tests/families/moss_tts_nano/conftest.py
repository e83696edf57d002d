"""A checkpoint in the official layout with code of its own, and its model, loaded once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import SpeechRequest
from antiphon.families.moss_tts_nano import FAMILY
from antiphon.families.moss_tts_nano.generator import MossGenerator
from antiphon.families.moss_tts_nano.prompt import MossPrompter
from tests.families.moss_tts_nano.random_checkpoint import write_repositories


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("moss") / "MOSS-TTS-Nano"
    write_repositories(path, channels=2)
    voices = path / "voices"
    voices.mkdir()
    for name, content in (("Ann", b"a recording"), ("Bob", b"another recording")):
        (voices / f"{name}.wav").write_bytes(content)
    (voices / "Bob.txt").write_text("Another one.\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def context(checkpoint: Path) -> LoadContext:
    return LoadContext(checkpoint, device="cpu", trusts_remote_code=True)


@pytest.fixture(scope="session")
def generator(context: LoadContext) -> Iterator[MossGenerator]:
    generator = MossGenerator(context)
    yield generator
    generator.close()


@pytest.fixture(scope="session")
def prompt_of(context: LoadContext) -> Callable[..., Prompt]:
    prompter = MossPrompter(context)

    def build(text: str, seed: int = 1, voice: str = "Ann") -> Prompt:
        voices = {each.id: each for each in prompter.capabilities.voices}
        request = SpeechRequest(text, sampling=FAMILY.tasks["speech"].sampling)
        return prompter.build(request, voices[voice], seed)

    return build
