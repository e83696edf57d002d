"""On a GPU, every family draws what a CPU draws, but for rounding, however it is accelerated."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.contracts.types import Latents
from tests.diffusion.stages import CACHE_DIT, TEA_CACHE, Drawing
from tests.families.whole_checkpoints import maker_of

torch = pytest.importorskip("torch", reason="needs the extra 'torch'")
for package in ("diffusers", "transformers", "accelerate", "cache_dit", "ftfy", "PIL"):
    pytest.importorskip(package, reason="the extra 'omni' brings it")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
    pytest.mark.filterwarnings("default"),  # compilers tell of changes to come
]

DEVICE = "cuda"
FAMILIES = ("qwen_image", "ovis_image", "glm_image", "wan_video")
EAGER: dict[str, Any] = {"enforce_eager": True}
COMPUTED_ALIKE: dict[str, dict[str, Any]] = {
    "cpu offload": {**EAGER, "enable_cpu_offload": True},
    "layerwise offload": {**EAGER, "enable_layerwise_offload": True},
    "layerwise offload by two": {
        **EAGER,
        "enable_layerwise_offload": True,
        "layerwise_num_gpu_layers": 2,
    },
    "slicing and tiling": {**EAGER, "vae_use_slicing": True, "vae_use_tiling": True},
    "cache_dit that is never near enough": {
        **EAGER,
        "cache_backend": "cache_dit",
        "cache_config": {"Fn_compute_blocks": 1, "residual_diff_threshold": 0.0},
    },
    "tea_cache that is never near enough": {
        **EAGER,
        "cache_backend": "tea_cache",
        "cache_config": {"rel_l1_thresh": 0.0},
    },
}
CACHES: dict[str, dict[str, Any]] = {
    "cache_dit": {**EAGER, **CACHE_DIT},
    "tea_cache": {**EAGER, **TEA_CACHE},
}
COMPILED: dict[str, dict[str, Any]] = {
    "cpu offload": {"enable_cpu_offload": True},
    "layerwise offload": {"enable_layerwise_offload": True},
    "cache_dit": CACHE_DIT,
    "tea_cache": TEA_CACHE,
}
TOLERANCES = {"float32": 5e-3, "bfloat16": 0.12}
"""Root mean square of what latents may differ by from the CPU's, relative to their deviation: on a
CPU those of the two types differ by up to 0.05. Convolutions in float32 are in TF32 by default."""
PIXEL_TOLERANCE = 3.0
"""On average, of 255 and in float32."""


@pytest.fixture(autouse=True)
def _each_test_compiles_anew() -> None:
    torch._dynamo.reset()  # or networks of other tests would count as recompilations


@pytest.fixture(scope="module", params=FAMILIES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def path(name: str, drawing_checkpoint: Callable[..., Path]) -> Path:
    return drawing_checkpoint(name)


@pytest.fixture(scope="module")
def on_cpu(name: str, path: Path) -> list[Any]:
    """Latents of two seeds, and the pixels of the second, as a CPU makes them."""
    return drawn(Drawing(name, path))


def drawn(drawing: Drawing, seeds: tuple[int, ...] = (1, 2)) -> list[Any]:
    """Return the latents of seeds, one begun after another's end, and the last one's pixels."""
    made: list[Any] = []
    for seed in seeds:
        state = drawing.begin(seed)
        made += drawing.denoised([state])
    return [*made, drawing.decoded(state, made[-1])]


def assert_near(found: Latents, wanted: Latents, tolerance: float) -> None:
    assert np.isfinite(found.data).all()
    error = np.sqrt(np.mean((found.data - wanted.data) ** 2)) / np.std(wanted.data)
    assert error <= tolerance


def assert_pixels_near(found: Any, wanted: Any) -> None:
    assert np.abs(found.astype(int) - wanted.astype(int)).mean() <= PIXEL_TOLERANCE


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_requests_alone_and_in_a_batch_are_those_of_a_cpu(
    name: str, path: Path, dtype: str
) -> None:
    """A CPU of the same type, since noise is drawn in it."""
    *wanted, pixels = drawn(Drawing(name, path, "cpu", dtype))
    drawing = Drawing(name, path, DEVICE, dtype, **EAGER)
    *alone, shown = drawn(drawing)
    together = drawing.denoised([drawing.begin(seed) for seed in (1, 2)])
    for found in (alone, together):
        for one, other in zip(found, wanted, strict=True):
            assert_near(one, other, TOLERANCES[dtype])
    if dtype == "float32":
        assert_pixels_near(shown, pixels)


@pytest.mark.parametrize("settings", COMPUTED_ALIKE.values(), ids=COMPUTED_ALIKE)
def test_what_saves_time_or_memory_without_a_cache_rounds_at_most(
    name: str, path: Path, on_cpu: list[Any], settings: dict[str, Any]
) -> None:
    *wanted, pixels = on_cpu
    *found, shown = drawn(Drawing(name, path, DEVICE, "float32", **settings))
    for one, other in zip(found, wanted, strict=True):
        assert_near(one, other, TOLERANCES["float32"])
    assert_pixels_near(shown, pixels)


def test_compiled_requests_of_changing_numbers_are_those_of_a_cpu(
    name: str, path: Path, on_cpu: list[Any]
) -> None:
    drawing = Drawing(name, path, DEVICE, "float32")
    for seeds in ((1,), (1, 2), (1, 2, 1)):
        found = drawing.denoised([drawing.begin(seed) for seed in seeds])
        for seed, latents in zip(seeds, found, strict=True):
            assert_near(latents, on_cpu[seed - 1], TOLERANCES["float32"])
    unguided = drawing.denoised([drawing.begin(1, is_guided=False)])[0]
    plain = Drawing(name, path)
    wanted = plain.denoised([plain.begin(1, is_guided=False)])[0]
    assert_near(unguided, wanted, TOLERANCES["float32"])


@pytest.mark.parametrize("settings", CACHES.values(), ids=CACHES)
def test_a_cache_skips_the_same_as_on_a_cpu(
    name: str, path: Path, on_cpu: list[Any], settings: dict[str, Any]
) -> None:
    """Far thresholds skip all that may be skipped, whatever sums round to."""
    *wanted, _ = drawn(Drawing(name, path, **settings))
    *found, _ = drawn(Drawing(name, path, DEVICE, "float32", **settings))
    for one, other in zip(found, wanted, strict=True):
        assert_near(one, other, TOLERANCES["float32"])
    assert (wanted[0].data != on_cpu[0].data).any(), "steps were skipped"


@pytest.mark.parametrize("settings", COMPILED.values(), ids=COMPILED)
def test_what_is_compiled_beside_offloading_and_caches_is_that_of_a_cpu(
    drawing_checkpoint: Callable[..., Path], settings: dict[str, Any]
) -> None:
    """Of one family, since compiling takes long."""
    checkpoint = drawing_checkpoint("qwen_image")
    *wanted, _ = drawn(Drawing("qwen_image", checkpoint, **settings))
    *found, _ = drawn(Drawing("qwen_image", checkpoint, DEVICE, "float32", **settings))
    for one, other in zip(found, wanted, strict=True):
        assert_near(one, other, TOLERANCES["float32"])


def test_a_checkpoint_of_16_bits_draws(name: str, tmp_path: Path) -> None:
    maker_of(name)(tmp_path, size="tiny", dtype="bfloat16")
    *wanted, _ = drawn(Drawing(name, tmp_path, "cpu", "bfloat16"))
    drawing = Drawing(name, tmp_path, DEVICE)
    assert drawing.denoiser.dtype == torch.bfloat16, "by default"
    *found, shown = drawn(drawing)
    for one, other in zip(found, wanted, strict=True):
        assert_near(one, other, TOLERANCES["bfloat16"])
    assert shown.std() > 1, "it shows something"
