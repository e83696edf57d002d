"""What is said of a server that listens."""

import pytest

from antiphon.cli.banner import Banner, announce
from antiphon.pipeline.model_loading import TASK_CLASSES


@pytest.mark.parametrize("task", TASK_CLASSES)
def test_every_task_has_a_first_call(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    announce(Banner("http://here", {"Page": "http://here"}, False, task))
    assert "curl http://here/v1/" in capsys.readouterr().out
