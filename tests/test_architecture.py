"""The house rules, enforced: who may import whom, what stays torch-free, and how big things get."""

import ast
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import antiphon
from antiphon.models.registry import FAMILIES

ROOT = Path(antiphon.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# A part may import what its row names, and itself. Rows run from the top of the house down.
GROUND = {"types", "chat_types", "picture_types", "config", "errors", "telemetry", "concurrency"}
MAY_IMPORT = {
    "__main__": {"cli"},
    "bench": {
        "audio",
        "codec",
        "nn",
        "pipeline",
        "models",
        "fabric",
        "__init__",
        "types",
        "chat_types",
        "config",
        "errors",
        "concurrency",
        "telemetry",
    },
    "cli": {
        *(
            "bench",
            "api",
            "offline",
            "pipeline",
            "fabric",
            "models",
            "audio",
            "voices",
            "storage",
            "media",
            "web",
            "demo",
        ),
        "placement",
        "__init__",
        *GROUND,
    },
    "web": set[str](),
    "demo": {"errors"},
    "api": {
        *("pipeline", "fabric", "storage", "voices", "audio", "media", "models", "__init__"),
        *GROUND,
    },
    "__init__": {"offline", "models", "types", "chat_types", "picture_types"},
    "offline": {
        *("pipeline", "models", "voices", "audio", "media"),
        *("types", "chat_types", "picture_types", "config", "errors", "concurrency"),
    },
    "pipeline": {
        *(
            "storage",
            "engine",
            "codec",
            "diffusion",
            "models",
            "voices",
            "audio",
            "media",
            "fabric",
            "placement",
        ),
        *GROUND,
    },
    "placement": {"fabric", "engine", "models", "nn", "config", "errors"},
    "storage": {"types", "errors"},
    "voices": {
        *("models", "audio", "storage", "media"),
        *("types", "config", "errors", "concurrency"),
    },
    "media": {"sandbox", "types", "picture_types", "config", "errors", "concurrency"},
    "fabric": {"models", *GROUND},
    "codec": {"engine", "models", "nn", "types"},
    "diffusion": {
        "engine",
        "models",
        "nn",
        "types",
        "picture_types",
        "errors",
        "config",
        "telemetry",
        "concurrency",
    },
    "engine": {"models", "nn", *GROUND},
    "models": {
        "engine",
        "codec",
        "diffusion",
        "nn",
        "types",
        "chat_types",
        "picture_types",
        "errors",
        "config",
        "storage",
        "audio",
    },
    "nn": {"types", "errors"},
    "audio": {"sandbox", "types", "errors"},
    "sandbox": {"errors"},
    "config": {"errors"},
    "telemetry": {"types", "picture_types", "errors"},
    "concurrency": set[str](),
    "errors": set[str](),
    "types": set[str](),
    "chat_types": {"types"},
    "picture_types": {"types"},
}
# A program that lies in a part, with its command line, may import what these rows name; nothing but
# programs may import it.
_OF_DYNAMO = {"api", "fabric", "models", "media", "config", "errors", "types"}
PROGRAMS = {
    "fabric/dynamo_worker.py": _OF_DYNAMO,
    "fabric/dynamo_flags.py": _OF_DYNAMO,
    "fabric/dynamo_routes.py": _OF_DYNAMO,
}
# What these may know of models: its contracts, never a family.
CONTRACTS = {"antiphon.models.base", "antiphon.models.prepared", "antiphon.models.spec"}
CONTRACTS_ONLY = {"__init__", "voices", "engine", "codec", "fabric"}
PACKAGES_OF_AUDIO = {"numpy", "av", "soxr"}
MAX_FILE_LINES = 400
MAX_ROOT_MODULES = 8
MAX_FUNCTION_LINES = 60
BROAD_EXCEPT_DOORS = {"engine/faults.py", "api/errors.py"}


NAMESAKES = {
    "hibari": {"models/reading/english.py"},  # its package reads English for others too
    "kokoro": {  # Kokoro-FastAPI is a service, whose clients any model speaks to
        "api/adapters/__init__.py",
        "api/adapters/kokoro.py",
        "api/options.py",
        "api/schemas/kokoro.py",
        "api/schemas/speech_ws.py",
        "api/schemas/peer_fields.py",
        "api/speech_ws.py",
        "api/tagged_speech.py",
        "config/__init__.py",
    },
}
"""Files that name a service or a package which is called as a family; that folder they do not."""
TESTS = Path(__file__).parent
WHOLE_SYSTEM = {"chaos", "clients", "deploy", "load", "quality"}
"""Folders of tests that no folder of the package corresponds to."""


@cache
def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


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
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


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
    may_import = PROGRAMS.get(name_of(path), MAY_IMPORT[part] | {part})
    for module in imports(path):
        root, *rest = module.split(".")
        if root != "antiphon":
            continue
        target = rest[0] if rest else "__init__"
        assert target in may_import, f"{part} may not import {module}"
        if part in CONTRACTS_ONLY and target == "models" and name_of(path) not in PROGRAMS:
            assert module in CONTRACTS, f"{part} knows the family contracts only, not {module}"


def test_only_programs_import_programs() -> None:
    programs = {f"antiphon.{name.removesuffix('.py').replace('/', '.')}" for name in PROGRAMS}
    for path in FILES:
        if name_of(path) not in PROGRAMS:
            assert not programs & set(imports(path)), name_of(path)


@of_each_file
def test_only_model_code_knows_torch(path: Path) -> None:
    knows_torch = part_of(path) in ("models", "nn")
    knows_torch |= name_of(path) in ("bench/bound.py", "bench/host_reads.py")
    knows_torch |= name_of(path) in ("bench/quality/opinion.py", "bench/quality/speaker_vectors.py")
    knows_torch |= name_of(path).startswith("engine/model_runner/")
    knows_torch |= name_of(path) in (
        "codec/graph_decoder.py",
        "codec/grouped_decoder.py",
        "codec/lockstep_decoder.py",
    )
    knows_torch |= name_of(path) in (
        "diffusion/acceleration.py",
        "diffusion/arrays.py",
        "diffusion/components.py",
        "diffusion/flow_denoiser.py",
        "diffusion/packed_denoiser.py",
        "diffusion/packed_latents.py",
        "diffusion/rank.py",
        "diffusion/rank_mesh.py",
        "diffusion/random_pipeline.py",
        "diffusion/tensor_shapes.py",
        "diffusion/text_encoder.py",
        "diffusion/vae_decoder.py",
    )
    torch_free = not knows_torch or name_of(path) in (
        "models/registry.py",
        "models/inspection.py",
        "models/measuring.py",
        "models/picture_spec.py",
        "models/spec.py",
        "models/base.py",
        "models/hub.py",
        "models/prepared.py",
        "models/prompt_length.py",
        "models/qwen3_tts/checkpoint_info.py",
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
        if name_of(path) == "models/registry.py" or name_of(path).startswith(f"models/{family}/"):
            continue
        is_namesake = name_of(path) in NAMESAKES.get(family, ())
        named = f"models.{family}" if is_namesake else family
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
    # The package itself sets variables that dependencies read when they are imported.
    allowed = ("__init__.py", "config/data.py", "config/sources.py")
    for path in FILES:
        if name_of(path) not in allowed:
            text = path.read_text(encoding="utf-8")
            assert "os.environ" not in text, name_of(path)
            assert "getenv" not in text, name_of(path)


def test_tests_mirror_the_package() -> None:
    """Folders of tests are those of the package; a file named after a module lies with it."""
    folders_of: dict[str, set[str]] = {}
    for path in FILES:
        folders_of.setdefault(path.stem, set()).add(path.parent.relative_to(ROOT).as_posix())
    folders = set[str]().union(*folders_of.values())
    for path in sorted(TESTS.rglob("test_*.py")):
        folder = path.parent.relative_to(TESTS).as_posix()
        if folder not in WHOLE_SYSTEM:
            assert folder in folders, f"{path}: the package has no folder {folder}"
            its_folders = folders_of.get(path.stem.removeprefix("test_"), {folder})
            assert folder in its_folders, f"{path}: the module lies in {sorted(its_folders)}"
