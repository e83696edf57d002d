"""The denoiser's two experts, its batches, and what it says of a request before it begins."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import DiffusionParameters, VideoRequest
from antiphon.contracts.types import Latents
from antiphon.families.wan_video.prompt import WanPrompter
from tests.families.wan_video.conftest import WanCheckpoint
from tests.families.wan_video.official import small_request, some_image


def context(path: Path) -> LoadContext:
    return LoadContext(path, device="cpu")


def denoiser(path: Path) -> Any:
    from antiphon.families.wan_video.denoiser import WanDenoiser

    return WanDenoiser(context(path))


def encoded(path: Path, requests: list[VideoRequest]) -> list[tuple[Any, Latents]]:
    """Return the prompts of requests, with seeds from 0, and what the encoders make of them."""
    from antiphon.families.wan_video.stages import WanTextEncoder

    prompter, encoder = WanPrompter(context(path)), WanTextEncoder(context(path))
    prompts = [prompter.build(request, seed) for seed, request in enumerate(requests)]
    return [(prompt, next(encoder.generate(prompt))) for prompt in prompts]


def stepped(loaded: Any, prepared: list[tuple[Any, Latents]], lags: list[int]) -> list[Any]:
    """Denoise requests, each beginning so many steps after the first; return their latents."""
    states: dict[int, Any] = {}
    done: dict[int, Any] = {}
    step = 0
    while len(done) < len(prepared):
        for index, (prompt, latents) in enumerate(prepared):
            if lags[index] == step:
                states[index] = loaded.begin(prompt, latents)
        loaded.step(list(states.values()))
        step += 1
        for index, (prompt, _) in enumerate(prepared):
            if index in states and states[index].step == loaded.work(prompt).num_steps:
                done[index] = loaded.finish(states.pop(index)).data
    return [done[index] for index in range(len(prepared))]


@pytest.mark.parametrize("layout", ["t2v-2.2-a14b", "i2v-2.1", "ti2v-2.2-5b"])
def test_batches_make_nearly_what_single_requests_make(wan: WanCheckpoint, layout: str) -> None:
    """As on a GPU: requests at different steps, with other scales, some at the other expert."""
    path = wan(layout)
    request = small_request(layout)
    more = DiffusionParameters(num_inference_steps=4, guidance_scale=2.0)
    other = replace(small_request(layout, parameters=more), prompt="the sea")
    prepared = encoded(path, [request, other])
    loaded = denoiser(path)
    assert len({loaded.work(prompt).batch_key for prompt, _ in prepared}) == 1
    alone = [stepped(loaded, [each], [0])[0] for each in prepared]
    loaded._is_one_by_one = False
    together = stepped(loaded, prepared, [0, 1])
    for one, two in zip(alone, together, strict=True):
        assert one.shape == two.shape
        assert abs(one - two).max() < 1e-3 * abs(one).max()


def test_each_step_uses_the_expert_for_its_noise(wan: WanCheckpoint) -> None:
    path = wan("t2v-2.2-a14b")
    loaded = denoiser(path)
    parameters = DiffusionParameters(num_inference_steps=3, flow_shift=1.0)
    requests = [
        small_request("t2v-2.2-a14b", parameters=replace(parameters, boundary_ratio=ratio))
        for ratio in (0.0, 0.75, 1.0)
    ]
    experts = [loaded.begin(*each).experts for each in encoded(path, requests)]
    assert experts == [(0, 0, 0), (0, 1, 1), (1, 1, 1)]


def test_only_checkpoints_of_two_experts_load_two(wan: WanCheckpoint) -> None:
    sizes = {}
    for layout in ("t2v-2.1", "t2v-2.2-a14b"):
        loaded = denoiser(wan(layout))
        sizes[layout] = len(loaded._experts)
    assert sizes == {"t2v-2.1": 1, "t2v-2.2-a14b": 2}


def test_work_grows_with_what_is_asked_for(wan: WanCheckpoint) -> None:
    path = wan("ti2v-2.2-5b")
    loaded = denoiser(path)
    prompter = WanPrompter(context(path))

    def work(**changed: Any) -> Any:
        return loaded.work(prompter.build(small_request("ti2v-2.2-5b", **changed), 1))

    plain = work()
    assert plain.num_steps == 3
    assert plain.preview_steps == ()
    unguided = work(parameters=DiffusionParameters(num_inference_steps=3, guidance_scale=1.0))
    assert plain.cost == 2 * unguided.cost
    for larger in (work(width=64), work(num_frames=9)):
        assert larger.cost > plain.cost
        assert larger.num_bytes > plain.num_bytes
        assert larger.batch_key != plain.batch_key
    assert unguided.batch_key != plain.batch_key
    assert work(image=some_image()).batch_key != plain.batch_key


def test_a_preview_is_an_estimate_that_ends_at_the_result(wan: WanCheckpoint) -> None:
    path = wan("ti2v-2.2-5b")
    loaded = denoiser(path)
    request = small_request("ti2v-2.2-5b", image=some_image())
    (begun,) = encoded(path, [request])
    state = loaded.begin(*begun)
    previews = []
    for _ in range(3):
        loaded.step([state])
        previews.append(loaded.preview(state).data)
    final = loaded.finish(state).data
    distances = [abs(preview - final).mean() for preview in previews]
    assert distances[-1] < distances[0]
    # The first frame is known from the beginning.
    assert all((preview[:, :, 0] == final[:, :, 0]).all() for preview in previews)


def test_a_pass_whose_weight_is_zero_is_left_out_where_bits_may_differ(
    wan: WanCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scale of 1 means the prompt alone; only a CPU computes the other pass, as diffusers."""
    path = wan("t2v-2.2-a14b")
    request = small_request("t2v-2.2-a14b")
    parameters = replace(request.parameters, guidance_scale_2=1.0)
    (begun,) = encoded(path, [replace(request, parameters=parameters)])
    loaded = denoiser(path)
    passes: list[int] = []
    for number, expert in enumerate(loaded._experts):
        expert.register_forward_hook(lambda *_, number=number: passes.append(number))
    (exact,) = stepped(loaded, [begun], [0])
    assert passes == [0, 0, 0, 0, 1, 1]
    passes.clear()
    monkeypatch.setattr(type(loaded), "device", torch_device("meta"))
    (fast,) = stepped(loaded, [begun], [0])
    assert passes == [0, 0, 0, 0, 1]
    assert abs(fast - exact).max() < 1e-3 * abs(exact).max()


def torch_device(name: str) -> Any:
    import torch

    return torch.device(name)
