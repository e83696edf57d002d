"""Parts of a measurement on several GPUs of one host: every shipped placement for them.

Times are for two H200 with 32 cores.
"""

import sys
from dataclasses import replace

from tests.bench.measured_part import Command, Options, Part

GROUP = "two-gpus"
_CLOSED_S = 15
_ON_CPUS = {
    "one-gpu": "{fabric: process, front_ends: 1}",
    "all-gpus": "{fabric: process, front_ends: 1, stages: {autoregressive: {devices: [cpu, cpu]}}}",
    "talker-codec-apart": "{fabric: process, front_ends: 1, stages: {decoder: {apart: true}}}",
    "four-talkers-one-codec": (
        "{fabric: process, front_ends: 1, stages: {autoregressive: {devices: [cpu, cpu]},"
        " decoder: {apart: true, devices: cpu, max_batch: 8}}}"
    ),
}
_TWO_STAGES = (
    "{{fabric: process, front_ends: 1, defaults: {{devices: {second}}},"
    " stages: {{autoregressive: {{devices: {first}}}, encoder: {{devices: {first}}}}}}}"
)


def several_gpu_parts(options: Options) -> list[Part]:
    parts = [
        _speech(options, "two-gpus-one", "one-gpu", _closed(options, 256)),
        _speech(options, "two-gpus-all", "all-gpus", _closed(options, 128, 512)),
        _speech(options, "two-gpus-rate", "all-gpus", _open(options)),
        _kill(options),
        _speech(options, "two-gpus-apart", "talker-codec-apart", _closed(options, 256)),
        _cfg_parallel(options),
        _two_stages(options),
    ]
    five = _speech(options, "five-gpus", "four-talkers-one-codec", _closed(options, 256))
    return [*(replace(part, num_gpus=2) for part in parts), replace(five, num_gpus=5)]


def _placement(options: Options, profile: str) -> Command:
    return "--placement", _ON_CPUS[profile] if options.is_tiny else profile


def _speech(options: Options, name: str, profile: str, load: Command) -> Part:
    """Return a part that measures the usual model over HTTP."""
    frames = ("--frames", "4-8" if options.is_tiny else "60-140")
    placed = _placement(options, profile)
    command = options.bench("serve", "1.7b", *load, *frames, *placed, *options.json(name))
    kept = f"qwen3_tts-{options.size('1.7b')}-custom_voice"
    return Part(name, GROUP, (command,), 90, first_s=120, model=kept)


def _closed(options: Options, *clients: int) -> Command:
    load = ("--concurrency", options.streams(*clients), "--ramp-s", "2")
    return *load, "--duration-s", options.count(_CLOSED_S), "--max-slots", options.count(256)


def _open(options: Options) -> Command:
    load = ("--rate", options.count(300), "--duration-s", options.count(20))
    return *load, "--max-slots", options.count(1700)


def _kill(options: Options) -> Part:
    few = ("--streams", "2", "--frames", "40", "--kill-after-s", "1") if options.is_tiny else ()
    module = (sys.executable, "-m", "tests.bench.engine_kill")
    command = (*module, "--size", options.size("1.7b"), *options.kept(), *few)
    command = (*command, *_placement(options, "all-gpus"), *options.json("two-gpus-kill"))
    kept = f"qwen3_tts-{options.size('1.7b')}-custom_voice"
    return Part("two-gpus-kill", GROUP, (command,), 75, first_s=120, model=kept)


def _cfg_parallel(options: Options) -> Part:
    """Return denoising steps whose two passes of guidance have a GPU each."""
    device = "cuda" if options.device == "auto" else options.device
    command = (
        *(sys.executable, "-m", "tests.diffusion.step_cost", "--parallel", "--device", device),
        *("--only", "wan:cfg_parallel", "--budget-s", "110"),
        *(*(("--tiny",) if options.is_tiny else ()), *options.json("two-gpus-cfg")),
    )
    return Part("two-gpus-cfg", GROUP, (command,), 120, needs=("diffusers",))


def _two_stages(options: Options) -> Part:
    """Return images whose codes are drawn on one GPU, and that are painted on the other."""
    few = ("--images", "2", "--pixels", "64", "--steps", "2") if options.is_tiny else ()
    first, second = ("cpu", "cpu") if options.is_tiny else ("cuda:0", "cuda:1")
    module = (sys.executable, "-m", "tests.bench.image_speed")
    command = (*module, "--size", options.size("16b"), *options.kept(), *few)
    placed = ("--placement", _TWO_STAGES.format(first=first, second=second))
    command = (*command, *placed, *options.json("two-gpus-stages"))
    kept = f"glm_image-{options.size('16b')}"
    return Part("two-gpus-stages", GROUP, (command,), 150, 240, kept, ("diffusers",))
