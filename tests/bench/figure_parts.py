"""All parts that `tests.bench.figures` measures: their commands, and how long they take.

Times are for an H200 with sixteen cores, generous enough for one that is shared.
"""

import os
import sys
from dataclasses import replace

from tests.bench.measured_part import LOAD_S, SHORTEST_LOAD_S, Command, Options, Part, bench
from tests.bench.several_gpu_parts import several_gpu_parts

TESTS = {
    "kernels": ("tests/nn", "tests/codec", "tests/engine"),
    "cosyvoice3": ("tests/families/cosyvoice3",),
    "mimo_audio": ("tests/families/mimo_audio",),
    "qwen3_tts": ("tests/families/qwen3_tts",),
    "causal_lm": ("tests/families/causal_lm",),
    "rest": (
        "tests/families/voxcpm2",
        "tests/families/fish_speech",
        "tests/families/kokoro",
        "tests/families/moss_tts_nano",
        "tests/families/glm_image/test_gpu.py",
        "tests/diffusion/test_gpu.py",
        "tests/bench",
        "tests/fabric/test_two_gpus.py",
    ),
}
"""The tests of ``scripts/test-gpu``, by part."""
_FRONT_ENDS = ("--front-ends", "4")
_LONG_TESTS_S = {"kernels": 240, "qwen3_tts": 240, "rest": 240}


def all_parts(options: Options) -> list[Part]:
    return [
        *_tests(),
        *_engine(options),
        _http(options, "http"),
        _http(options, "http-front-ends", *_FRONT_ENDS),
        _first_sound(options),
        _clones(options),
        _overload(options),
        *_families(options),
        _kokoro(options),
        _suite(options),
        _rate(options),
        *_peers(options),
        *_sizes(options),
        _drawing(options),
        *several_gpu_parts(options),
    ]


def _tests() -> list[Part]:
    pytest = (sys.executable, "-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", "-rfE")
    return [
        Part(
            f"tests-{name}",
            "tests",
            ((*pytest, "--durations", "8", *folders),),
            _LONG_TESTS_S.get(name, 90),
            needs=("pytest", "hypothesis"),
        )
        for name, folders in TESTS.items()
    ]


def _speech(
    options: Options,
    name: str,
    group: str,
    command: Command,
    expected_s: float,
    model: tuple[str, str] = ("1.7b", "custom_voice"),
) -> Part:
    """Return a part that measures the usual model, of a size and a task."""
    kept = f"qwen3_tts-{options.size(model[0])}-{model[1]}"
    return Part(name, group, (command,), expected_s, first_s=120, model=kept)


def _engine(options: Options) -> list[Part]:
    loads = (
        ("engine-100", (1, 8, 64, 256), 100, 60),
        ("engine-256x600", (256,), 600, 60),
        ("engine-64x400", (64,), 400, 40),
    )
    return [
        _speech(options, name, "engine", _frames(options, name, "1.7b", streams, frames), expected)
        for name, streams, frames, expected in loads
    ]


def _frames(
    options: Options, name: str, size: str, streams: tuple[int, ...], frames: int, *more: str
) -> Command:
    load = ("--concurrency", options.streams(*streams), "--frames", options.count(frames))
    return options.bench("engine", size, *load, *more, *options.json(name))


def _http(options: Options, name: str, *processes: str) -> Part:
    load = ("--concurrency", options.streams(1, 64, 256), "--ramp-s", "2", *_cut(options))
    command = options.bench("serve", "1.7b", *load, *processes, *options.json(name))
    return _speech(options, name, "http", command, 90)


def _first_sound(options: Options) -> Part:
    """Return a part that tells where the time to a first sound goes, without HTTP."""
    module = (sys.executable, "-m", "tests.engine.first_sound_times")
    command = (*module, "--size", options.size("1.7b"), *options.kept())
    return _speech(options, "first-sound", "listeners", (*command, "--requests", "60"), 45)


def _clones(options: Options) -> Part:
    """Return a part that speaks with voices of recordings that are new to the server."""
    module = (sys.executable, "-m", "tests.bench.clone_speed")
    few = ("--rounds", "1", "--at-once", "2") if options.is_tiny else ()
    command = (*module, "--size", options.size("1.7b"), *options.kept(), *few)
    command = (*command, *_FRONT_ENDS, *options.json("clones"))
    return _speech(options, "clones", "listeners", command, 60, ("1.7b", "base"))


def _overload(options: Options) -> Part:
    """Return an open load of more than one card can speak: the rest is refused."""
    load = ("--rate", options.count(220), "--duration-s", options.count(20), *_cut(options))
    server = ("--max-slots", options.count(256), *_FRONT_ENDS)
    command = options.bench("serve", "1.7b", *load, *server, *options.json("overload"))
    return _speech(options, "overload", "listeners", command, 75)


def _cut(options: Options) -> Command:
    """Return the flags by which answers end at different times."""
    return "--frames", "4-8" if options.is_tiny else "60-140"


def _families(options: Options) -> list[Part]:
    families = (
        ("cosyvoice3", "0.5b", (1, 8, 64), 75, 60),
        ("fish_speech", "s2-pro", (1, 8, 64), 40, 60),
        ("mimo_audio", "7b", (1, 8, 64), 16, 75),
        ("voxcpm2", "2b", (1, 8, 64), 24, 60),
    )
    return [
        Part(
            name,
            "families",
            (_frames(options, name, size, streams, frames, "--family", name),),
            expected_s,
            first_s=100,
            model=f"{name}-{options.size(size)}-custom_voice",
        )
        for name, size, streams, frames, expected_s in families
    ]


def _kokoro(options: Options) -> Part:
    """Return a part over HTTP: the model speaks sentences, and has no frames to be counted."""
    size = options.size("82M")
    model = str(options.random_dir / f"kokoro-{size}")
    make = (sys.executable, "-m", "tests.families.kokoro.random_checkpoint", model, size)
    load = ("--concurrency", options.streams(1, 8, 64), "--ramp-s", "1")
    few = ("--requests", options.count(256), *options.json("kokoro"))
    serve = bench("serve", "--model", model, "--device", options.device, *load, *few)
    return Part("kokoro", "families", (make, serve), 75)


def _suite(options: Options) -> Part:
    cells = ("--languages", "en,zh", "--modes", "stream,whole,text_stream", "--lengths", "medium")
    load = ("--concurrency", options.streams(1, 64), "--rounds", "2", *_cut(options))
    few = ("--requests", "4") if options.is_tiny else ("--duration-s", "1.2")
    out = ("--out", str(options.out / "suite"))
    command = options.bench("suite", "1.7b", *cells, *load, *few, *out)
    return _speech(options, "suite", "suite", command, 180)


def _rate(options: Options) -> Part:
    """Return an open load, which goes on as long as it is told to, or as there is time."""
    load_s = LOAD_S if options.rate_s is None else f"{options.rate_s:g}"
    load = ("--rate", options.count(100), "--duration-s", load_s, *_cut(options))
    slots = ("--max-slots", options.count(256), *_FRONT_ENDS, *options.json("rate"))
    command = options.bench("serve", "1.7b", *load, *slots)
    expected_s = 60 + (SHORTEST_LOAD_S if options.rate_s is None else options.rate_s)
    part = _speech(options, "rate", "rate", command, expected_s)
    return replace(part, is_elastic=options.rate_s is None)


def _peers(options: Options) -> list[Part]:
    tokens = ("--tokens", options.count(200))
    load = ("--task", "thinker", "--concurrency", options.streams(1, 8, 64), *tokens)
    chat = options.bench("chat", "7b", *load, *options.json("chat"))
    transformers = (
        *(sys.executable, "-m", "tests.families.causal_lm.transformers_speed"),
        *("--size", options.size("7b"), *options.kept()),
        *("--concurrency", options.streams(1, 64), *tokens, *options.json("transformers")),
    )
    voxcpm = (
        *(sys.executable, "-m", "tests.families.voxcpm2.oracle.speed"),
        *("--size", options.size("2b"), *options.kept()),
        *("--patches", options.count(60), *options.json("voxcpm")),
    )
    thinker = f"causal_lm-{options.size('7b')}-thinker"
    voxcpm2 = f"voxcpm2-{options.size('2b')}-custom_voice"
    official = () if "VOXCPM_ORACLE" in os.environ else ("voxcpm", "einops")
    return [
        Part("chat", "peers", (chat,), 60, 100, thinker),
        Part("transformers", "peers", (transformers,), 100, 30, thinker, ("transformers",)),
        Part("voxcpm", "peers", (voxcpm,), 150, 20, voxcpm2, ("transformers", *official)),
    ]


def _sizes(options: Options) -> list[Part]:
    """Return parts of the usual model's smaller size, and of voices that are cloned."""
    small = _frames(options, "engine-0.6b", "0.6b", (1, 8, 64, 256), 100)
    cloned = _frames(options, "engine-base", "1.7b", (1, 64), 100, "--task", "base")
    return [
        _speech(options, "engine-0.6b", "sizes", small, 60, ("0.6b", "custom_voice")),
        _speech(options, "engine-base", "sizes", cloned, 50, ("1.7b", "base")),
    ]


def _drawing(options: Options) -> Part:
    """Return denoising steps, whose program has rows and a budget of its own."""
    device = "cuda" if options.device == "auto" else options.device
    tiny = ("--tiny", "--only", "wan:eager") if options.is_tiny else ()
    command = (
        *(sys.executable, "-m", "tests.diffusion.step_cost", "--device", device),
        *("--budget-s", "280", *tiny, *options.json("drawing")),
    )
    return Part("drawing", "drawing", (command,), 300, needs=("diffusers",))
