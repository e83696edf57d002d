"""Processes that share each step make what one makes, and are broken together."""

import gc
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from antiphon.config.diffusion import DiffusionSettings
from antiphon.contracts.family import LoadContext, Ref
from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest, VideoRequest
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.diffusion import rank
from antiphon.diffusion.parallel import ParallelDenoiser
from antiphon.errors import EngineFailedError, InvalidRequestError, SettingsError
from antiphon.families.registry import checkpoint_family
from tests.diffusion import ranked

pytestmark = pytest.mark.slow  # each test starts two processes, which import PyTorch

TELLING = Ref("tests.diffusion.ranked:TellingDenoiser")
OF_FAMILY = Ref("tests.diffusion.ranked:load_of_family")


@pytest.fixture(scope="module")
def forked() -> Iterator[None]:
    """Fork ranks from a process that has imported them, which takes each of them 5 s of CPU."""
    context = multiprocessing.get_context("forkserver")
    names = ("qwen_image", "ovis_image", "glm_image", "wan_video")
    context.set_forkserver_preload(
        [rank.__name__, ranked.__name__, *(f"antiphon.families.{each}.denoiser" for each in names)]
    )
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(multiprocessing, "get_context", lambda _: context)
        yield


@contextmanager
def ranks(factory: Ref, path: Path | None = None, **settings: Any) -> Iterator[ParallelDenoiser]:
    context = LoadContext(path, device="cpu", diffusion=DiffusionSettings(**settings))
    denoiser = ParallelDenoiser(factory, context)
    try:
        yield denoiser
    finally:
        denoiser.close()


def test_each_rank_loads_on_a_gpu_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(ranked, "TellingDenoiser", lambda context: loaded.append(context.device))
    monkeypatch.setattr(rank, "find_device", torch.device)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: loaded.append(f"set {device}"))
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda *_, **__: None)
    for number in range(3):
        context = LoadContext(device="cuda:1")
        rank._load(rank.RankPlan(number, 3, str(tmp_path / "ranks"), TELLING, context))
    assert loaded == [
        told for index in (1, 2, 3) for told in (f"set cuda:{index}", f"cuda:{index}")
    ]
    with pytest.raises(SettingsError, match="need 3 GPUs from cuda:2 on; there are 4"):
        rank._load(rank.RankPlan(0, 3, "", TELLING, LoadContext(device="cuda:2")))


def prompt(data: str = "") -> Prompt:
    return Prompt(data=data, num_tokens=1, seed=0)


def test_all_ranks_do_what_they_are_told_and_forget_what_is_dropped() -> None:
    with ranks(TELLING, cfg_parallel_size=2) as denoiser:
        assert denoiser.max_batch == 3
        assert denoiser.work(prompt()).num_steps == 2
        states = [denoiser.begin(prompt(), None) for _ in range(3)]
        denoiser.step(states[:2])
        denoiser.step(states[1:])
        assert denoiser.preview(states[0]).data == [3, 3]
        assert [denoiser.finish(state).data for state in states] == [1, 2, 1]
        del states[1:]
        gc.collect()
        assert denoiser.preview(states[0]).data == [1, 1]
        with pytest.raises(InvalidRequestError, match="Not this one"):
            denoiser.begin(prompt("refused"), None)
        denoiser.step(states)


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("how", ["dies", "fails"])
def test_a_rank_that_fails_alone_breaks_all_for_good(how: str) -> None:
    with ranks(TELLING, cfg_parallel_size=2) as denoiser:
        state = denoiser.begin(prompt(how), None)
        with pytest.raises(EngineFailedError, match="rank 1 has"):
            denoiser.step([state])
        with pytest.raises(EngineFailedError, match="rank 1 has"):
            denoiser.begin(prompt(), None)


def request_of(task: str) -> ImageRequest | VideoRequest:
    parameters = DiffusionParameters(num_inference_steps=2)
    if task == "video":
        return VideoRequest(
            "a red cat",
            width=48,
            height=32,
            num_frames=5,
            negative_prompt="dogs",
            parameters=parameters,
        )
    return ImageRequest(
        "a red cat", width=64, height=96, negative_prompt="dogs", parameters=parameters
    )


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("name", "layout", "settings", "is_exact"),
    [
        ("qwen_image", "base", {"cfg_parallel_size": 2}, True),
        ("ovis_image", "base", {"cfg_parallel_size": 2}, True),
        ("glm_image", "base", {"cfg_parallel_size": 2}, True),
        ("wan_video", "t2v-2.2-a14b", {"cfg_parallel_size": 2}, True),
        ("qwen_image", "base", {"ulysses_degree": 2}, False),
        # Sequences of videos are shared here, too: alone they would be so by the same lines.
        ("wan_video", "t2v-2.1", {"ulysses_degree": 2, "cfg_parallel_size": 2}, False),
    ],
)
def test_several_processes_make_what_one_makes(
    drawing_checkpoint: Callable[..., Path],
    name: str,
    layout: str,
    settings: dict[str, int],
    is_exact: bool,
) -> None:
    path = drawing_checkpoint(name, layout)
    ((task_name, task),) = checkpoint_family(path).tasks.items()
    context = LoadContext(path, device="cpu")
    prompter = task.prompter.resolve()(context)
    encoder, alone = (stage.factory.resolve()(context) for stage in task.pipeline[-3:-1])
    what = request_of(task_name)
    if not prompter.capabilities.negative_prompts:
        what = replace(what, negative_prompt=None)
    built = prompter.build(what, 1)
    if len(task.pipeline) > 3:  # a prior draws codes
        codes = np.random.default_rng(1).integers(0, 64, (built.data.prior.num_codes, 1))
        built = replace(built, conditioning=Latents(tuple(codes)))
    (conditioning,) = encoder.generate(built)
    with ranks(OF_FAMILY, path, **settings) as together:
        found = []
        for denoiser in (alone, together):
            state = denoiser.begin(built, conditioning)
            for _ in range(denoiser.work(built).num_steps):
                denoiser.step([state])
            found.append(denoiser.finish(state).data)
    one, other = found
    if is_exact:
        np.testing.assert_array_equal(other, one)
    else:
        np.testing.assert_allclose(other, one, atol=1e-4)


@pytest.mark.usefixtures("forked")
def test_ring_attention_is_refused_where_no_backend_has_it(
    drawing_checkpoint: Callable[..., Path],
) -> None:
    path = drawing_checkpoint("wan_video", "t2v-2.1")
    with pytest.raises(SettingsError, match="--ring-degree: it needs GPUs"):
        ParallelDenoiser(
            OF_FAMILY,
            LoadContext(path, device="cpu", diffusion=DiffusionSettings(ring_degree=2)),
        )
