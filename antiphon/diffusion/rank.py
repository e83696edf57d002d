"""One process of a `ParallelDenoiser`, which carries out the same calls as all other ranks."""

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from antiphon.config.diffusion import devices_of_ranks
from antiphon.config.sources import set_library_defaults
from antiphon.contracts.family import LoadContext, Ref
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.diffusion.protocol import Denoiser
from antiphon.engine.faults import fault_of
from antiphon.errors import AntiphonError, EngineError, SettingsError
from antiphon.nn.device import find_device

logger = logging.getLogger(__name__)

_TIMEOUT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class RankPlan:
    """Start parameters of a rank; data.

    Attributes:
        meeting: a file by which they find one another.
    """

    rank: int
    num_ranks: int
    meeting: str
    factory: Ref
    context: LoadContext


class RankStates:
    """A rank's denoiser, and its states by number."""

    def __init__(self, denoiser: Denoiser) -> None:
        self._denoiser = denoiser
        self._states: dict[int, Any] = {}

    def begin(self, number: int, prompt: Prompt, conditioning: Latents | None) -> None:
        self._states[number] = self._denoiser.begin(prompt, conditioning)

    def step(self, numbers: list[int]) -> None:
        """Take a step of some requests."""
        self._denoiser.step([self._states[number] for number in numbers])

    def preview(self, number: int) -> Latents:
        return self._denoiser.preview(self._states[number])

    def finish(self, number: int) -> Latents:
        return self._denoiser.finish(self._states[number])

    def drop(self, number: int) -> None:
        self._states.pop(number, None)


def run_rank(plan: RankPlan, pipe: Connection, works: Connection | None) -> None:
    """Load, report readiness, and carry out calls until a close call or the end of the parent.

    Args:
        works: connection for prompts whose work is to be estimated; ``None``: another rank answers.
    """
    set_library_defaults({"GLOO_SOCKET_IFNAME": "lo"})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    loaded: list[Denoiser] = []
    fault = fault_of(lambda: loaded.append(_load(plan)))
    if fault is not None:
        pipe.send((None, _error_of(fault)))
        return
    denoiser = loaded.pop()
    pipe.send((denoiser.max_batch, None))
    if works is not None:
        threading.Thread(target=_answer, args=(denoiser, works), daemon=True).start()
    _carry_out(denoiser, pipe, is_first=plan.rank == 0)
    denoiser.close()
    torch.distributed.destroy_process_group()


def _load(plan: RankPlan) -> Denoiser:
    device = find_device(plan.context.device)
    if device.type == "cuda":
        first = device.index or 0
        if first + plan.num_ranks > torch.cuda.device_count():
            raise SettingsError(
                "--ulysses-degree, --ring-degree, --cfg-parallel-size: they need"
                f" {plan.num_ranks} GPUs from cuda:{first} on; there are"
                f" {torch.cuda.device_count()}."
            )
        device = torch.device(devices_of_ranks(str(device), plan.num_ranks)[plan.rank])
        torch.cuda.set_device(device)
    torch.distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        init_method=f"file://{plan.meeting}",
        rank=plan.rank,
        world_size=plan.num_ranks,
        timeout=_TIMEOUT,
    )
    denoiser: Denoiser = plan.factory.resolve()(replace(plan.context, device=str(device)))
    return denoiser


def _carry_out(denoiser: Denoiser, pipe: Connection, *, is_first: bool) -> None:
    states = RankStates(denoiser)
    calls: dict[str, Callable[..., Any]] = {
        "begin": states.begin,
        "step": states.step,
        "preview": states.preview,
        "finish": states.finish,
    }
    while True:
        method, arguments = pipe.recv()
        if method == "close":
            return
        if method == "drop":
            states.drop(*arguments)
            continue
        made: list[Any] = []
        fault = fault_of(lambda: made.append(calls[method](*arguments)))  # noqa: B023 - at once
        if fault is not None:
            pipe.send((None, _error_of(fault)))
        else:
            pipe.send((made[0] if is_first else None, None))
        del arguments, made, fault


def _answer(denoiser: Denoiser, works: Connection) -> None:
    while True:
        try:
            prompt = works.recv()
        except (OSError, EOFError):
            return
        works.send(denoiser.work(prompt))


def _error_of(fault: Exception) -> AntiphonError:
    if isinstance(fault, AntiphonError):
        return fault.with_traceback(None)
    logger.error("a rank failed", exc_info=fault)
    return EngineError(f"The model failed: {type(fault).__name__}: {fault}")


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None, "it was started by another process"
    wait([parent.sentinel])
    os._exit(1)
