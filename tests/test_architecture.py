"""The house rules, enforced: who may import whom, what stays torch-free, and how big things get."""

import ast
import gc
import re
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path

import pytest

import antiphon
from antiphon.families.registry import FAMILIES

ROOT = Path(antiphon.__file__).parent
BENCH = ROOT.parent / "bench" / "antiphon_bench"
"""Distribution of its own, that the rules treat as a part of the package."""
FILES = [*sorted(ROOT.rglob("*.py")), *sorted(BENCH.rglob("*.py"))]

# From the bottom up: a part may import those before it, in no place one that comes after it.
ORDER = (
    *("errors", "formats", "concurrency", "sandbox", "config", "contracts", "telemetry"),
    *("audio", "media", "storage", "voices", "text", "nn"),
    *("engine", "codec", "diffusion", "stages", "fabric", "families"),
    *("placement", "pipeline", "offline", "__init__"),
    *("web", "demo", "api", "dynamo", "family_check", "cli", "__main__", "bench"),
)
_MODEL_CODE = {"nn", "engine", "codec", "diffusion"}
# Parts that a part reaches through the ones between only.
NEVER_IMPORTS = {
    "contracts": {"concurrency", "sandbox"},
    "audio": {"config", "concurrency", "telemetry"},
    "media": {"audio"},
    "storage": {"audio", "media"},
    "nn": {"audio", "media", "storage", "voices", "text", "telemetry", "config"},
    "engine": {"audio", "media", "storage", "voices", "text"},
    "fabric": {*_MODEL_CODE, "audio", "media", "storage", "voices", "text"},
    "families": {"stages", "fabric", "voices", "storage", "media", "telemetry"},
    "pipeline": _MODEL_CODE,
    "offline": {*_MODEL_CODE, "stages", "fabric"},
    "api": {*_MODEL_CODE, "stages", "families", "offline"},
    "cli": _MODEL_CODE,
}
PACKAGES_OF_AUDIO = {"numpy", "av", "soxr"}
# What a newcomer reads to follow a speech request from the socket to the samples.
CORE_PATH = (
    *(
        "errors.py",
        "formats.py",
        "concurrency.py",
        "config/*.py",
        "telemetry/*.py",
        "contracts/*.py",
    ),
    *("engine/**/*.py", "nn/*.py"),
    *("nn/codec_layers/*.py", "codec/*.py", "stages/*.py"),
    *("fabric/base.py", "fabric/local.py", "fabric/pool.py"),
    *("pipeline/model_loading.py", "pipeline/reservation.py", "pipeline/runtime.py"),
    *("pipeline/speech/*.py", "audio/chain.py", "audio/encode.py", "audio/resample.py"),
    *("audio/stretch.py", "audio/wav.py", "audio/loudness.py"),
    *("api/app.py", "api/delivery.py", "api/encoding.py", "api/errors.py"),
    *("api/options.py", "api/sockets.py", "api/speech.py", "api/speech_ws*.py"),
    *("api/state.py", "api/streaming.py"),
    *("api/schemas/field_rules.py", "api/schemas/speech.py", "api/schemas/speech_ws.py"),
    *("families/registry.py", "families/kit/*.py", "families/qwen3_tts/*.py"),
)
MAX_CORE_LINES = 28_970  # it may only fall
MAX_FILE_LINES = 400
MAX_ROOT_MODULES = 8
MAX_FUNCTION_LINES = 60
BROAD_EXCEPT_DOORS = {"engine/faults.py", "api/errors.py"}


NAMESAKES = {
    "hibari": {"text/english.py"},  # its package reads English for others too
    "kokoro": {  # Kokoro-FastAPI is a service, whose clients any model speaks to
        "api/adapters/__init__.py",
        "api/adapters/kokoro.py",
        "api/options.py",
        "api/schemas/kokoro.py",
        "api/schemas/speech_ws.py",
        "api/schemas/peer_fields.py",
        "api/speech_ws.py",
        "api/voice_tags.py",
        "config/__init__.py",
    },
}
"""Files that name a service or a package which is called as a family; that folder they do not."""
TESTS = Path(__file__).parent
WHOLE_SYSTEM = {"chaos", "clients", "deploy", "load", "quality", "training"}
"""Folders of tests that no folder of the package corresponds to."""


@pytest.fixture(scope="module", autouse=True)
def _trees() -> Generator[None, None, None]:
    """Keep the collector from a million nodes, which take seconds each time that it sees them."""
    gc.disable()
    yield
    parsed.cache_clear()
    nodes.cache_clear()
    gc.enable()


@cache
def name_of(path: Path) -> str:
    is_bench = path.is_relative_to(BENCH)
    return f"bench/{path.relative_to(BENCH)}" if is_bench else path.relative_to(ROOT).as_posix()


def part_of(path: Path) -> str:
    return name_of(path).split("/")[0].removesuffix(".py")


@cache
def parsed(path: Path) -> ast.Module:
    """Return a file's syntax tree; five tests look at each."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(parsed(path)))


def imports(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (within(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield within(node.module or "")


def within(module: str) -> str:
    """Return the name of a module as if all of them were in one package."""
    return re.sub(r"^antiphon_bench\b", "antiphon.bench", module)


def imported_modules() -> dict[str, set[str]]:
    modules = {
        name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
        for path in FILES
    }
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        targets = set(imports(path)) | {
            within(f"{node.module}.{alias.name}")
            for node in nodes(path)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        names = {target.removeprefix("antiphon.") for target in targets}
        found[name] = {target for target in names if target in modules} - {name}
    return found


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that import each other, however indirectly, in order."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen, waiting = set[str](), [*graph[start]]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting.extend(graph[name])
        reached[start] = seen
    mutual = {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in graph
        if name in reached[name]
    }
    return [set(each) for each in sorted(mutual, key=min)]


def of_each_file(check: Callable[[Path], None]) -> Callable[[], None]:
    """Make one test of a rule for files, which names every file that breaks it.

    A test for each rule and file would be four thousand, each with its own cost.
    """

    def test() -> None:
        broken = []
        for path in FILES:
            try:
                check(path)
            except AssertionError as error:
                broken.append(f"{name_of(path)}: {error}")
        assert not broken, "\n".join(broken)

    return test


@of_each_file
def test_imports_point_down(path: Path) -> None:
    part = part_of(path)
    may_import = set(ORDER[: ORDER.index(part) + 1]) - NEVER_IMPORTS.get(part, set())
    for module in imports(path):
        root, *rest = module.split(".")
        if root == "antiphon":
            target = rest[0] if rest else "__init__"
            assert target in may_import, f"{part} may not import {module}"


def test_no_import_cycles() -> None:
    """Imports under TYPE_CHECKING and inside functions count, too."""
    assert cycles(imported_modules()) == []


@of_each_file
def test_only_model_code_knows_torch(path: Path) -> None:
    knows_torch = part_of(path) in ("families", "nn")
    knows_torch |= name_of(path) in ("bench/bound.py", "family_check/host_reads.py")
    knows_torch |= name_of(path) in ("bench/quality/opinion.py", "bench/quality/speaker_vectors.py")
    knows_torch |= name_of(path).startswith("engine/model_runner/")
    knows_torch |= name_of(path) in (
        "codec/graph_decoder.py",
        "codec/host/grouped_decoder.py",
        "codec/lockstep_decoder.py",
        "codec/pending.py",
    )
    knows_torch |= name_of(path) in (
        "diffusion/acceleration.py",
        "diffusion/arrays.py",
        "diffusion/component_stages.py",
        "diffusion/components.py",
        "diffusion/flow_denoiser.py",
        "diffusion/packed_denoiser.py",
        "diffusion/packed_latents.py",
        "diffusion/rank.py",
        "diffusion/rank_mesh.py",
        "diffusion/tensor_shapes.py",
    )
    torch_free = not knows_torch or name_of(path) in (
        "families/registry.py",
        "families/kit/hub.py",
        "families/kit/speech_budget.py",
        "families/qwen3_tts/checkpoint.py",
        "nn/layer_configs.py",
        "nn/safetensors_index.py",
    )
    uses_torch = any(module.split(".")[0] in ("torch", "triton") for module in imports(path))
    assert not (torch_free and uses_torch)


def test_the_planning_half_of_the_engine_knows_no_tensors() -> None:
    for path in FILES:
        if part_of(path) == "engine" and "engine/model_runner/" not in name_of(path):
            tensors = ("antiphon.nn", "antiphon.engine.model_runner")
            assert not [each for each in imports(path) if each.startswith(tensors)], name_of(path)


@of_each_file
def test_no_family_name_outside_its_folder_and_the_registry(path: Path) -> None:
    docstrings = {
        id(node.body[0].value)
        for node in nodes(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    words = {
        node.value if isinstance(node, ast.Constant) else node.id
        for node in nodes(path)
        if (isinstance(node, ast.Constant) and id(node) not in docstrings)
        or isinstance(node, ast.Name)
    }
    words |= set(imports(path))
    for family in FAMILIES:
        if name_of(path) == "families/registry.py" or name_of(path).startswith(
            f"families/{family}/"
        ):
            continue
        is_namesake = name_of(path) in NAMESAKES.get(family, ())
        named = f"families.{family}" if is_namesake else family
        used = [word for word in words if isinstance(word, str) and named in word.lower()]
        assert not used, f"'{family}' is named here: {used}"


@of_each_file
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_FILE_LINES
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            # A kernel takes a line for each pointer and constant: its body is what is read.
            is_kernel = any("triton.jit" in ast.unparse(each) for each in node.decorator_list)
            num_lines = node.end_lineno - (node.body[0] if is_kernel else node).lineno + 1
            assert num_lines <= MAX_FUNCTION_LINES, f"{node.name} has {num_lines} lines"


def test_the_core_reading_path_only_shrinks() -> None:
    paths = {path for pattern in CORE_PATH for path in ROOT.glob(pattern)}
    assert all(any(ROOT.glob(pattern)) for pattern in CORE_PATH)
    num_lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
    assert num_lines <= MAX_CORE_LINES


def test_files_of_tests_stay_small() -> None:
    sizes = {
        path.relative_to(TESTS).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in TESTS.rglob("*.py")
    }
    assert {name: size for name, size in sizes.items() if size > MAX_FILE_LINES} == {}


@of_each_file
def test_faults_are_caught_wholesale_at_two_doors_only(path: Path) -> None:
    for node in nodes(path):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = ast.unparse(node.type) if node.type else ""
        if caught in ("", "Exception", "BaseException"):
            reraises = isinstance(node.body[-1], ast.Raise)
            assert name_of(path) in BROAD_EXCEPT_DOORS or reraises


def test_audio_needs_numpy_and_its_codecs_only() -> None:
    outside = {
        module.split(".")[0]
        for path in FILES
        if part_of(path) == "audio"
        for module in imports(path)
    }
    assert outside - set(sys.stdlib_module_names) - {"antiphon"} <= PACKAGES_OF_AUDIO


def test_public_classes_have_names_of_their_own() -> None:
    names = Counter(
        node.name
        for path in FILES
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, number in names.items() if number > 1] == []


def test_the_root_stays_small() -> None:
    assert len(list(ROOT.glob("*.py"))) <= MAX_ROOT_MODULES


def test_only_settings_come_from_the_environment() -> None:
    # The package itself sets variables that dependencies read when they are imported. Completion
    # looks where the hub's package does, and may not wait until that has been imported.
    allowed = ("__init__.py", "config/data.py", "config/sources.py", "cli/completion.py")
    for path in FILES:
        if name_of(path) not in allowed:
            text = path.read_text(encoding="utf-8")
            assert "os.environ" not in text, name_of(path)
            assert "getenv" not in text, name_of(path)


def test_tests_mirror_the_package() -> None:
    """Folders of tests are those of the package; a file named after a module lies with it."""
    folders_of: dict[str, set[str]] = {}
    for path in FILES:
        folders_of.setdefault(path.stem, set()).add(Path(name_of(path)).parent.as_posix())
    folders = set[str]().union(*folders_of.values())
    for path in sorted(TESTS.rglob("test_*.py")):
        folder = path.parent.relative_to(TESTS).as_posix()
        if folder not in WHOLE_SYSTEM:
            assert folder in folders, f"{path}: the package has no folder {folder}"
            its_folders = folders_of.get(path.stem.removeprefix("test_"), {folder})
            assert folder in its_folders, f"{path}: the module lies in {sorted(its_folders)}"
