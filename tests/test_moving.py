"""Requests and flags of other servers are treated as docs/moving.md says."""

import json
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer

from antiphon.cli.main import app
from antiphon.config import ModelSettings, Settings
from antiphon.config.sources import ENVIRONMENT_PREFIX
from tests.families.whole_checkpoints import maker_of
from tests.servers import RunningServer, start_server

PAGE = (Path(__file__).parents[1] / "docs" / "moving.md").read_text(encoding="utf-8")
SECTIONS = {text.partition("\n")[0]: text for text in PAGE.split("\n## ")[1:]}
SERVED_AS = {"OpenAI": "hibari", "Kokoro-FastAPI": "hibari", "vLLM-Omni": "qwen3_tts"}
MAX_NEW_TOKENS = 20  # random weights may never end their speech


@pytest.fixture(scope="module", params=["hibari", "qwen3_tts"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[tuple[str, RunningServer], None, None]:
    source = request.param
    if source != "hibari":
        source = str(tmp_path_factory.mktemp(source) / "tiny")
        maker_of(request.param)(Path(source))
    with start_server(Settings(model=ModelSettings(source=source))) as running:
        yield request.param, running


def members(service: str) -> Iterator[tuple[str, Any, str]]:
    """Yield the rows of a service that have a member of a request: name, value and treatment."""
    for row, treatment in re.findall(r'^\| `("\w.*?)`.*? \| (.+) \|$', SECTIONS[service], re.M):
        ((name, value),) = json.loads(f"{{{row}}}").items()
        yield name, value, treatment


def test_the_members_are_treated_as_the_page_says(served: tuple[str, RunningServer]) -> None:
    model, server = served
    for service in (each for each, needed in SERVED_AS.items() if needed == model):
        rows = list(members(service))
        assert len(rows) >= 6
        for name, value, treatment in rows:
            bound = {"max_new_tokens": MAX_NEW_TOKENS} if model != "hibari" else {}
            body = {"input": "Hello.", **bound, name: value}
            answer = httpx.post(f"{server.base_url}/v1/audio/speech", json=body, timeout=60)
            if treatment.startswith("refused"):
                assert answer.status_code == 400, (service, name)
                assert answer.json()["error"]["param"] == name
            else:
                assert treatment.startswith(("the same", "without effect")), treatment
                assert answer.status_code == 200, (service, name, answer.text)
                assert name not in answer.headers.get("x-ignored-fields", ""), (service, name)


def test_the_flags_and_variables_that_are_named_exist() -> None:
    group: Any = typer.main.get_command(app)
    options = {name for each in group.commands["serve"].params for name in each.opts}
    named: set[str] = set()
    for left, right in re.findall(r"^\| (`-?-?\w.*?) \| (.+) \|$", PAGE, re.MULTILINE):
        named |= set(re.findall(r"`(--[\w-]+)", left if right.startswith("the same") else right))
    assert len(named) > 10
    assert named <= options
    section, field = "model", "gpu_memory_utilization"
    assert f"`{ENVIRONMENT_PREFIX}{section}_{field}`".upper() in PAGE
    assert field in ModelSettings.model_fields
