"""One row of `tests.diffusion.step_cost`, in a process of its own.

    python -m tests.diffusion.step_cost_row '{"subject": "wan", "row": "eager", ...}'

It makes all ready that needs no device, waits for a line of its standard input, and prints its
result as JSON.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from antiphon.config.diffusion import DiffusionSettings
from antiphon.contracts.family import LoadContext, Ref
from antiphon.contracts.picture_types import VideoRequest
from antiphon.contracts.types import Latents
from antiphon.diffusion.parallel import ParallelDenoiser
from antiphon.diffusion.protocol import Denoiser
from tests.diffusion.random_stages import (
    SUBJECTS,
    Subject,
    load_denoiser,
    load_pipeline,
    load_vae,
    prompt_of,
    text_embeddings,
    write_folder,
)

NUM_UNMEASURED = 2
"""First steps of a request, which compile, choose algorithms, and fill caches of memory."""

_EAGER: dict[str, Any] = {"enforce_eager": True}
_SETTINGS: dict[str, dict[str, Any]] = {
    "eager": _EAGER,
    "compiled": {},
    "cache_dit": {
        **_EAGER,
        "cache_backend": "cache_dit",
        "cache_config": {"max_warmup_steps": NUM_UNMEASURED},
    },
    "cache_dit_skips": {
        **_EAGER,
        "cache_backend": "cache_dit",
        "cache_config": {
            "max_warmup_steps": NUM_UNMEASURED,
            "residual_diff_threshold": 1e9,
            "max_continuous_cached_steps": 1,
        },
    },
    "tea_cache": {**_EAGER, "cache_backend": "tea_cache"},
    "layerwise_offload": {**_EAGER, "enable_layerwise_offload": True},
    "cpu_offload": {**_EAGER, "enable_cpu_offload": True},
    "batch": _EAGER,
    "vae": {},
    "vae_slicing": {"vae_use_slicing": True},
    "vae_tiling": {"vae_use_tiling": True},
    "ulysses": {**_EAGER, "ulysses_degree": 2},
    "cfg_parallel": {**_EAGER, "cfg_parallel_size": 2},
    "ring": {**_EAGER, "ring_degree": 2},
}
PARALLEL_ROWS = ("ulysses", "cfg_parallel", "ring")


@dataclass(slots=True)
class Row:
    """Networks, device and folder that a row is measured with; ``notes`` go into its result."""

    subject: Subject
    name: str
    path: Path
    device: str
    steps: int
    notes: list[str] = field(default_factory=list)

    @property
    def is_on_gpu(self) -> bool:
        return self.device.startswith("cuda")

    @property
    def context(self) -> LoadContext:
        settings = DiffusionSettings(**_SETTINGS[self.name])
        return LoadContext(self.path, self.device, diffusion=settings)

    def now(self) -> float:
        """Return the wall clock when the device has done all, in seconds; on a CPU, its time."""
        if not self.is_on_gpu:
            return time.thread_time()
        torch.cuda.synchronize()
        return time.perf_counter()

    def begin(self, denoiser: Denoiser, seed: int = 1) -> Any:
        prompt = prompt_of(self.subject, self.path, self.steps, seed)
        return denoiser.begin(prompt, text_embeddings(self.subject))


def by_diffusers(row: Row) -> float:
    pipeline = load_pipeline(row.subject, row.path, row.device)
    _restart_memory(row)
    request = row.subject.request_of(row.steps)
    dtype = pipeline.transformer.dtype
    embeddings = {
        name: torch.from_numpy(values).to(row.device, dtype).reshape(1, *values.shape[-2:])
        for name, values in text_embeddings(row.subject).data.items()
    }
    marks = [row.now()]

    def mark(*_: Any) -> dict[str, Any]:
        marks.append(row.now())
        return {}

    pipeline(
        **embeddings,
        negative_prompt=None,  # or it takes an empty one for a second text
        **({"num_frames": request.num_frames} if isinstance(request, VideoRequest) else {}),
        width=request.width,
        height=request.height,
        num_inference_steps=row.steps,
        guidance_scale=request.parameters.guidance_scale,
        generator=torch.Generator().manual_seed(1),
        output_type="latent",
        callback_on_step_end=mark,
        callback_on_step_end_tensor_inputs=[],
    )
    return median(_steps(marks))


def by_us(row: Row) -> float:
    denoiser: Any = load_denoiser(row.context)
    _restart_memory(row)
    computed = _count(denoiser)
    state = row.begin(denoiser)
    marks = [row.now()]
    for _ in range(row.steps):
        denoiser.step([state])
        marks.append(row.now())
    _note_finite(row, denoiser.finish(state))
    if row.name == "compiled":
        row.notes.append(f"first step {marks[1] - marks[0]:.1f} s")
    if "cache" in row.name:  # its steps differ, so their mean counts
        row.notes.append(f"computed {len(computed)} of {2 * row.steps} passes")
        return fmean(_steps(marks))
    return median(_steps(marks))


def by_turns(row: Row) -> float:
    """Return the seconds of a step whose denoiser was in main memory before the request."""
    denoiser: Any = load_denoiser(row.context)
    vae = load_vae(row.context)
    _restart_memory(row)
    times: list[float] = []
    for _ in range(2):  # the first time is slower: memory is not pinned, nor allocated
        with vae._loader.accelerator.resident():
            begun_s = row.now()
        state = row.begin(denoiser)
        times = [begun_s, row.now()]
    for _ in range(row.steps):
        denoiser.step([state])
        times.append(row.now())
    _note_finite(row, denoiser.finish(state))
    row.notes.append(f"{times[1] - times[0]:.2f} s to move it to the GPU")
    return median(_steps(times[1:]))


def in_batch(row: Row) -> float:
    """Return the seconds of a step of four requests, a fourth of it for each; likewise in turns."""
    denoiser = load_denoiser(row.context)
    _restart_memory(row)
    states = [row.begin(denoiser, seed) for seed in range(4)]
    halves = (row.steps + NUM_UNMEASURED) // 2
    marks = [row.now()]
    for _ in range(halves):
        for state in states:
            denoiser.step([state])
        marks.append(row.now())
    alone = median(_steps(marks)) / 4
    marks = [row.now()]
    for _ in range(row.steps - halves):
        denoiser.step(states)
        marks.append(row.now())
    together = median(_steps(marks) or [marks[-1] - marks[-2]]) / 4
    _note_finite(row, denoiser.finish(states[0]))
    row.notes.append(f"4 requests: {1000 * alone:.1f} ms each one after another")
    row.notes.append(f"batch / one after another {together / alone:.3f}")
    return together


def decoded(row: Row) -> float:
    vae = load_vae(row.context)
    prompt = prompt_of(row.subject, row.path, row.steps)
    request = row.subject.request
    assert request.height is not None
    assert request.width is not None
    shape: tuple[int, ...] = (1, 16, request.height // 8, request.width // 8)
    if isinstance(request, VideoRequest):
        assert request.num_frames is not None
        shape = (*shape[:2], (request.num_frames - 1) // 4 + 1, *shape[2:])
    noise = np.random.default_rng(1).standard_normal(shape, np.float32)
    prompt = replace(prompt, conditioning=Latents(noise))
    marks = [row.now()]
    for turn in range(3):
        if turn == 1:
            _restart_memory(row)
        (_,) = vae.generate(prompt)
        marks.append(row.now())
    return min(after - before for before, after in pairwise(marks[1:]))


def in_parallel(row: Row) -> float:
    """Return the seconds of a step on two devices, and note how their result differs."""
    plain = replace(row.context, diffusion=DiffusionSettings(**_EAGER))
    alone = load_denoiser(plain)
    wanted, alone_s = _whole(row, alone)
    alone.close()
    together = ParallelDenoiser(Ref(f"{load_denoiser.__module__}:load_denoiser"), row.context)
    try:
        found, together_s = _whole(row, together)
    finally:
        together.close()
    scale = float(np.std(wanted))
    difference = np.abs(found - wanted)
    row.notes.append(f"one device: {1000 * alone_s:.1f} ms, x{alone_s / together_s:.2f}")
    row.notes.append(
        f"differs by {difference.max() / scale:.2g} at most,"
        f" {difference.mean() / scale:.2g} on average, of the latents' deviation"
    )
    return together_s


def _whole(row: Row, denoiser: Denoiser) -> tuple[Any, float]:
    """Return a request's latents, and the seconds of a step; processes compute, so by the clock."""
    for _ in range(2):
        state = row.begin(denoiser)
        begun_s = time.perf_counter()
        for _ in range(row.steps):
            denoiser.step([state])
        latents = denoiser.finish(state)  # waits for the device
        seconds = time.perf_counter() - begun_s
    _note_finite(row, latents)
    return latents.data, seconds / row.steps


def _count(denoiser: Any) -> list[None]:
    """Return a list that grows when a pass computes the last block, of a cache's row only."""
    passes: list[None] = []
    network = denoiser._loader.accelerator._networks["transformer"]
    blocks = [each for each in network.modules() if type(each).__name__ in network._repeated_blocks]
    next(blocks[-1].children()).register_forward_hook(lambda *_: passes.append(None))
    return passes


def _note_finite(row: Row, latents: Latents) -> None:
    if not np.isfinite(latents.data).all():
        row.notes.append("NOT FINITE")


def _restart_memory(row: Row) -> None:
    if row.is_on_gpu:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _steps(marks: Sequence[float]) -> list[float]:
    """Return the times between marks, but for the first ones."""
    return [after - before for before, after in pairwise(marks[NUM_UNMEASURED:])]


_MEASURES: dict[str, Callable[[Row], float]] = {
    "diffusers": by_diffusers,
    "cpu_offload": by_turns,
    "batch": in_batch,
    "vae": decoded,
    "vae_slicing": decoded,
    "vae_tiling": decoded,
    **dict.fromkeys(PARALLEL_ROWS, in_parallel),
}


def measured(given: dict[str, Any], wait: Callable[[], object] = lambda: None) -> dict[str, Any]:
    """Return a row's result: milliseconds, memory in GiB, notes, and where it was measured.

    Args:
        given: the row's ``subject``, ``row``, ``device``, ``steps`` and ``is_tiny``.
        wait: called when all is ready that needs no device.
    """
    subject = SUBJECTS[given["subject"]]
    if given["is_tiny"]:
        subject = subject.tiny()
    with TemporaryDirectory() as folder:
        write_folder(Path(folder), subject)
        wait()
        if given["device"] == "cpu":
            torch.set_num_threads(1)
        row = Row(subject, given["row"], Path(folder), given["device"], given["steps"])
        seconds = _MEASURES.get(row.name, by_us)(row)
    is_here = row.is_on_gpu and row.name not in PARALLEL_ROWS
    return {
        "ms": 1000 * seconds,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if is_here else None,
        "notes": row.notes,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if row.is_on_gpu else row.device,
    }


def main() -> None:
    result = measured(json.loads(sys.argv[1]), sys.stdin.readline)
    sys.stdout.write(f"{json.dumps(result)}\n")


if __name__ == "__main__":
    main()
