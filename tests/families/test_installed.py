"""Models of other distributions are served by their names."""

from pathlib import Path

import pytest

from antiphon.errors import ModelLoadError
from antiphon.families.qwen3_tts.sizes import make_checkpoint
from antiphon.families.registry import resolve, served_name


@pytest.fixture
def wagtail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with a model, as an installer leaves it."""
    package = tmp_path / "voice_wagtail"
    make_checkpoint(package / "checkpoint")
    code = "from pathlib import Path\n\nCHECKPOINT = Path(__file__).parent / 'checkpoint'\n"
    (package / "__init__.py").write_text(code)
    info = tmp_path / "voice_wagtail-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: voice-wagtail\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[antiphon.models]\nwagtail = voice_wagtail:CHECKPOINT\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return package / "checkpoint"


def test_an_installed_model_is_found_by_its_name(wagtail: Path) -> None:
    family, path = resolve("wagtail")
    assert family.name == "qwen3_tts"
    assert path == wagtail
    assert served_name("wagtail") == "wagtail"


def test_an_unknown_name_lists_installed_models(wagtail: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"Did you mean 'wagtail'\?.*wagtail"):
        resolve("wagtale")
