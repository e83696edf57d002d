"""On two GPUs, each placement uses the GPUs that it names, and makes what one GPU makes."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest

from antiphon.config.sources import load_settings
from antiphon.contracts.picture_types import DiffusionParameters, Image, ImageRequest
from antiphon.contracts.types import SpeechRequest
from antiphon.offline import collect
from antiphon.pipeline.model_loading import ServedModels, load_models
from antiphon.pipeline.pictures.images import Images
from antiphon.pipeline.speech.service import Speech
from antiphon.placement.settings_placement import resolved
from tests.loops import on_a_loop

torch = pytest.importorskip("torch", reason="needs the extra 'torch'")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,  # each test starts two or three processes, which import PyTorch
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs"),
    pytest.mark.filterwarnings("default"),  # compilers tell of changes to come
]

TEXTS = ("Hello there.", "One, two, three.", "A longer line of text.", "Hi.")
MIN_BYTES = 100 * 2**20
"""A CUDA context takes more than this on its GPU."""
ONE_GPU = "{fabric: process, defaults: {devices: cuda:0}}"
TWO_STAGES = "{fabric: process, defaults: {devices: cuda:1}, stages: {prior: {devices: cuda:0}}}"


def used() -> list[int]:
    """Return the bytes that are in use on the first two GPUs."""
    pairs = [torch.cuda.mem_get_info(device) for device in range(2)]
    return [total - free for free, total in pairs]


@on_a_loop
async def served(
    path: Path, placement: str, make: Callable[[ServedModels], Any], **flags: Any
) -> tuple[list[bool], Any]:
    before = used()
    given = {"model.source": str(path), "model.deterministic": True, "model.max_slots": 8}
    settings = resolved(load_settings({**given, "server.placement": (placement,), **flags}))
    async with AsyncExitStack() as stack:
        models = await load_models(settings, None, stack)
        grown = [now - earlier for now, earlier in zip(used(), before, strict=True)]
        return [each > MIN_BYTES for each in grown], await make(models)


async def spoken(models: ServedModels) -> list[bytes]:
    speech = Speech(models.speech, load_settings({}).speech)
    requests = [SpeechRequest(text, seed=seed) for seed, text in enumerate(TEXTS)]
    try:
        audio = await asyncio.gather(*(collect(speech.stream(each)) for each in requests))
        return [each.samples.tobytes() for each in audio]
    finally:
        speech.close()


async def drawn(models: ServedModels) -> list[bytes]:
    images = Images(models.images, load_settings({}).images)
    parameters = DiffusionParameters(num_inference_steps=2)
    requests = [
        ImageRequest(
            "a red cat", seed, width=64, height=64, negative_prompt="dogs", parameters=parameters
        )
        for seed in range(4)
    ]

    async def one(request: ImageRequest) -> bytes:
        async with aclosing(images.stream(request)) as items:
            [image] = [item async for item in items if isinstance(item, Image)]
        return image.pixels.tobytes()

    try:
        return await asyncio.gather(*map(one, requests))
    finally:
        images.close()


@pytest.mark.parametrize(
    ("placement", "uses"),
    [
        ("{fabric: process, defaults: {devices: cuda:1}}", [False, True]),
        ("all-gpus", [True, True]),
        ("talker-codec-apart", [True, True]),
        ("{fabric: process, stages: {codec: {devices: [cuda:0, cuda:1]}}}", [True, True]),
    ],
)
def test_speech_is_the_same_on_every_gpu(
    checkpoint: Callable[..., Path], placement: str, uses: list[bool]
) -> None:
    path = checkpoint("tiny", "custom_voice")
    on_one, expected = served(path, ONE_GPU, spoken)
    assert on_one == [True, False]
    assert served(path, placement, spoken) == (uses, expected)


@pytest.mark.parametrize(
    ("placement", "flags", "uses"),
    [
        ("{fabric: process, defaults: {devices: cuda:1}}", {}, [False, True]),
        (TWO_STAGES, {}, [True, True]),
        ("all-gpus", {}, [True, True]),
        (ONE_GPU, {"diffusion.cfg_parallel_size": 2}, [True, True]),
    ],
)
def test_images_are_drawn_on_the_gpus_of_the_placement(
    drawing_checkpoint: Callable[..., Path],
    placement: str,
    flags: dict[str, Any],
    uses: Sequence[bool],
) -> None:
    pytest.importorskip("diffusers", reason="the extra 'omni' brings it")
    path = drawing_checkpoint("glm_image")
    eager = {"diffusion.enforce_eager": True}
    on_one, expected = served(path, ONE_GPU, drawn, **eager)
    assert on_one == [True, False]
    used, made = served(path, placement, drawn, **eager, **flags)
    assert used == list(uses)
    assert [len(each) for each in made] == [len(each) for each in expected]
    assert len({*made}) == len(made), "each seed has its own image"
