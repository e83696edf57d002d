"""Checks of settings against what the served families support."""

import re
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec

from antiphon.config import ModelSettings
from antiphon.config.diffusion import Acceleration, DiffusionSettings, devices_of_ranks
from antiphon.contracts.family import Family, LoadContext, StageKind, Task
from antiphon.errors import SettingsError, how_to_install
from antiphon.families.registry import families
from antiphon.placement.gpus import gpus_of_host

_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


def denoises(task: Task) -> bool:
    return any(stage.kind is StageKind.DIFFUSION for stage in task.pipeline)


def check_accelerations(served: Iterable[Family], settings: DiffusionSettings) -> None:
    """Refuse acceleration settings that a denoising family does not support, or that have no use.

    Raises:
        SettingsError: names the flag, the family, and the families that can.
    """
    wanted = accelerations_of(settings)
    drawing = [family for family in served if any(map(denoises, family.tasks.values()))]
    for acceleration, flag in wanted.items():
        able = [family.name for family in families() if acceleration in family.accelerations]
        can = f"Families that can: {', '.join(able) or 'none'}."
        if not drawing:
            raise SettingsError(f"{flag}: none of the models that are served denoises. {can}")
        for family in drawing:
            if acceleration not in family.accelerations:
                raise SettingsError(f"{flag}: '{family.name}' cannot do that. {can}")
    _check_together(settings)


def accelerations_of(settings: DiffusionSettings) -> dict[Acceleration, str]:
    """Return what the settings ask for, and by which flag; what is the default is not asked for."""
    asked = {
        Acceleration.CACHE_DIT: settings.cache_backend == "cache_dit"
        and "--cache-backend cache_dit",
        Acceleration.TEA_CACHE: settings.cache_backend == "tea_cache"
        and "--cache-backend tea_cache",
        Acceleration.VAE_SLICING: settings.vae_use_slicing and "--vae-use-slicing",
        Acceleration.VAE_TILING: settings.vae_use_tiling and "--vae-use-tiling",
        Acceleration.CPU_OFFLOAD: settings.enable_cpu_offload and "--enable-cpu-offload",
        Acceleration.LAYERWISE_OFFLOAD: settings.enable_layerwise_offload
        and "--enable-layerwise-offload",
        Acceleration.FLOW_SHIFT: settings.flow_shift is not None and "--flow-shift",
        Acceleration.BOUNDARY_RATIO: settings.boundary_ratio is not None and "--boundary-ratio",
        Acceleration.ULYSSES: settings.ulysses_degree > 1 and "--ulysses-degree",
        Acceleration.RING: settings.ring_degree > 1 and "--ring-degree",
        Acceleration.CFG_PARALLEL: settings.cfg_parallel_size > 1 and "--cfg-parallel-size",
    }
    return {acceleration: flag for acceleration, flag in asked.items() if flag}


def check_gpus(
    denoisers: Iterable[LoadContext], gpus: Callable[[], Mapping[str, int]] = gpus_of_host
) -> None:
    """Refuse denoisers in more processes than this host has GPUs for; raises SettingsError."""
    for context in denoisers:
        parallel = {
            "--ulysses-degree": context.diffusion.ulysses_degree,
            "--ring-degree": context.diffusion.ring_degree,
            "--cfg-parallel-size": context.diffusion.cfg_parallel_size,
        }
        asked = " ".join(f"{flag} {number}" for flag, number in parallel.items() if number > 1)
        if not asked:
            continue
        found, num_ranks = gpus(), context.diffusion.num_processes
        first = context.device
        if first == "auto":
            first = "cuda:0" if found else "cpu"
        if not {*devices_of_ranks(first, num_ranks)} <= {*found}:
            raise SettingsError(
                f"{asked}: needs {num_ranks} GPUs of one host, the denoiser's device and the ones"
                f" after it. Its device is '{first}', and this host has"
                f" {', '.join(found) or 'no GPU that PyTorch sees'}."
            )
        if context.diffusion.ring_degree > 1 and context.dtype == "float32":
            raise SettingsError(f"{asked}: --ring-degree needs --dtype bfloat16, not float32.")


def _check_together(settings: DiffusionSettings) -> None:
    """Refuse settings that have no effect, or contradict one another; raises SettingsError."""
    if settings.cache_config and settings.cache_backend is None:
        raise SettingsError("--cache-config: it is for a --cache-backend, cache_dit or tea_cache.")
    if settings.cache_backend == "cache_dit" and find_spec("cache_dit") is None:
        raise SettingsError(
            f"--cache-backend cache_dit: it needs cache-dit, which is missing:"
            f" {how_to_install('omni')}."
        )
    if settings.enable_cache_dit_summary and settings.cache_backend != "cache_dit":
        raise SettingsError("--enable-cache-dit-summary: it is for --cache-backend cache_dit.")
    if settings.enable_cpu_offload and settings.enable_layerwise_offload:
        raise SettingsError(
            "--enable-cpu-offload, --enable-layerwise-offload: only one of them is possible: the"
            " denoiser is moved as a whole, or by its layers."
        )
    if settings.num_processes > 1:
        others = [
            (settings.cache_backend is not None, "--cache-backend"),
            (settings.enable_cpu_offload, "--enable-cpu-offload"),
            (settings.enable_layerwise_offload, "--enable-layerwise-offload"),
        ]
        for is_set, flag in others:
            if is_set:
                raise SettingsError(
                    f"{flag}: not with --ulysses-degree, --ring-degree or --cfg-parallel-size."
                )
    if settings.ulysses_degree > 1 and settings.ring_degree > 1:
        raise SettingsError(
            "--ulysses-degree, --ring-degree: combining Ulysses and ring parallelism is not"
            " supported yet."
        )


def check_settings(family: Family, settings: ModelSettings) -> None:
    """Refuse devices and weights that this family does not support; raises SettingsError."""
    devices = {"device": settings.device, "decoder_device": settings.decoder_device}
    for name, device in devices.items():
        if device is not None and not _DEVICE.fullmatch(device):
            raise SettingsError(
                f"Invalid 'model.{name}': '{device}'. Must be auto, cpu, cuda or cuda:N."
            )
    if settings.quantize not in (None, "int8", "fp16"):
        four_bits = (
            ": with weights of four bits, hidden states have a signal-to-noise ratio of 11 dB"
            " against float32, with int8 21 dB; see docs/without-a-gpu.md"
        )
        reason = four_bits if settings.quantize == "int4" else ""
        raise SettingsError(
            f"Invalid 'model.quantize': '{settings.quantize}'. Must be 'int8' or 'fp16'{reason}."
        )
    if settings.quantize and not family.quantizes:
        raise SettingsError(
            f"Invalid 'model.quantize': '{settings.quantize}'. Models of '{family.name}' have no"
            " quantised weights: it must be unset."
        )
    if settings.load_format == "dummy" and not family.draws_weights:
        raise SettingsError(
            f"Invalid 'model.load_format': 'dummy'. Models of '{family.name}' are loaded from files"
            " only: must be 'auto'."
        )
