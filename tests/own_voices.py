"""A chat model with a voice of its own, as small as can be."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from antiphon.config import ModelSettings, Settings
from antiphon.contracts.chat import CHAT_VOICE
from antiphon.families.registry import families
from tests.families.whole_checkpoints import maker_of
from tests.servers import DEADLINE_S, RunningServer, start_server

VOICES = ["Chelsie", "Ethan"]


def make_own_voice(path: Path, layout: str = "omni_voice") -> Path:
    """Write random weights of such a model; ``layout`` "omni" is one without a voice."""
    (family,) = [each for each in families() if CHAT_VOICE in each.tasks]
    maker_of(family.name)(path, size="tiny", task=layout)
    return path


@contextmanager
def start_own_voice(path: Path, **more: Any) -> Generator[RunningServer, None, None]:
    """Serve one as "omni"; ``more``: further sections of the settings.

    A busy machine does not speak in real time, and nobody is refused for that.
    """
    given = {"source": str(path), "name": "omni", "device": "cpu", "dtype": "float32"}
    patience = {"max_slots": 2, "max_wait_s": DEADLINE_S}
    model = ModelSettings.model_validate({**given, **patience, **more.pop("model", {})})
    with start_server(Settings.model_validate({"model": model, **more})) as running:
        yield running
