import json
from pathlib import Path

import pytest

from antiphon.diffusion.model_index import MODEL_INDEX, ModelIndex
from antiphon.errors import ModelLoadError

INDEX = {
    "_class_name": "SomePipeline",
    "_diffusers_version": "0.42.1",
    "boundary_ratio": 0.875,
    "image_encoder": [None, None],
    "transformer": ["diffusers", "SomeTransformer"],
}


def written(path: Path, content: object = INDEX) -> Path:
    (path / MODEL_INDEX).write_text(json.dumps(content))
    return path


def test_it_tells_components_from_settings(tmp_path: Path) -> None:
    index = ModelIndex.read(written(tmp_path))
    assert index.pipeline == "SomePipeline"
    assert index.components == {"transformer": "SomeTransformer"}
    assert index.settings == {"boundary_ratio": 0.875}
    assert index.check("transformer", "Other", "SomeTransformer") == "SomeTransformer"


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [("vae", "SomeVae", "'vae' is missing"), ("transformer", "Other", "only Other is supported")],
)
def test_a_component_that_is_not_what_the_family_runs_is_refused(
    tmp_path: Path, name: str, kind: str, said: str
) -> None:
    with pytest.raises(ModelLoadError, match=said):
        ModelIndex.read(written(tmp_path)).check(name, kind)


def test_no_index_and_no_configuration_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=MODEL_INDEX):
        ModelIndex.read(tmp_path)
    with pytest.raises(ModelLoadError, match="no configuration"):
        ModelIndex.read(written(tmp_path)).config("transformer")


def test_a_component_has_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "scheduler").mkdir()
    (tmp_path / "scheduler" / "scheduler_config.json").write_text('{"shift": 3.0}')
    assert ModelIndex.read(written(tmp_path)).config("scheduler").number("shift") == 3.0
