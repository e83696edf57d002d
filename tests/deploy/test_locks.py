"""What the images install is locked: one version of each package, and the hashes of its files."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
LOCKS = sorted(DEPLOY.glob("*.lock"))
IMAGE = {
    "python_version": "3.12",
    "python_full_version": "3.12.0",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "os_name": "posix",
    "platform_python_implementation": "CPython",
    "implementation_name": "cpython",
}
NVIDIA = re.compile(r"^(nvidia-|cuda-|triton$)")
"""What only PyTorch's CUDA build brings: constraints.txt is for all builds, and leaves them out."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def entries(path: Path) -> list[str]:
    """Return what a lock says, continued lines joined."""
    joined = path.read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in joined.splitlines() if not line.startswith("#")]


def pinned(path: Path, machine: str = "x86_64") -> dict[str, str]:
    """Return the versions that a lock, or constraints.txt, has for an image, by name."""
    versions: dict[str, str] = {}
    for entry in entries(path):
        requirement = Requirement(entry.partition(" --hash")[0])
        environment = {**IMAGE, "platform_machine": machine}
        if requirement.marker is None or requirement.marker.evaluate(environment):
            [specifier] = requirement.specifier
            assert specifier.operator == "==", entry
            versions[canonicalize_name(requirement.name)] = specifier.version
    return versions


def required(name: str, extras: tuple[str, ...], machine: str) -> set[str]:
    """Return all that a package needs in an image, as far as it is installed here."""
    found: set[str] = set()
    waiting = [(canonicalize_name(name), extras)]
    while waiting:
        name, extras = waiting.pop()
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        for need in map(Requirement, needs):
            environments = [
                {**IMAGE, "platform_machine": machine, "extra": extra} for extra in ("", *extras)
            ]
            if need.marker and not any(map(need.marker.evaluate, environments)):
                continue
            key = canonicalize_name(need.name)
            if key not in found or need.extras:
                found.add(key)
                waiting.append((key, tuple(need.extras)))
    return found


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_file_has_a_hash_and_nothing_says_where_it_comes_from(path: Path) -> None:
    for entry in entries(path):
        assert re.fullmatch(
            r"[\w.-]+==[\w.+!]+( ; [^#]+?)? +(--hash=sha256:[0-9a-f]{64} *)+", entry
        ), entry


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_locks_and_constraints_agree(path: Path) -> None:
    constraints, locked = pinned(ROOT / "constraints.txt"), pinned(path)
    beyond = {name for name in locked if name not in constraints and not NVIDIA.match(name)}
    assert not beyond
    assert {name: constraints[name] for name in locked if name in constraints} == {
        name: version for name, version in locked.items() if name in constraints
    }


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize(
    ("name", "extras"), [("requirements.lock", ()), ("requirements-cuda.lock", ("torch", "ray"))]
)
def test_a_lock_has_all_that_the_project_needs(
    name: str, extras: tuple[str, ...], machine: str
) -> None:
    """Nothing else is installed: pip is told to look for no dependencies."""
    locked = pinned(DEPLOY / name, machine)
    declared = PROJECT["project"]["dependencies"] + [
        line for extra in extras for line in PROJECT["project"]["optional-dependencies"][extra]
    ]
    needed: set[str] = set()
    for requirement in map(Requirement, declared):
        key = canonicalize_name(requirement.name)
        assert requirement.specifier.contains(locked[key]), key
        needed |= {key} | required(key, tuple(requirement.extras), machine)
    assert needed <= set(locked)


def test_the_build_lock_has_what_builds_the_project() -> None:
    locked = pinned(DEPLOY / "build.lock")
    wanted = PROJECT["build-system"]["requires"]
    told = [line for line in (DEPLOY / "build.in").read_text().splitlines() if line[0] != "#"]
    assert told == wanted
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)])
        assert required(requirement.name, (), "x86_64") <= set(locked)


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("Dockerfile*")), ids=lambda path: path.name)
def test_images_install_what_is_locked_and_nothing_else(path: Path) -> None:
    text = re.sub(r"\\\n\s*", " ", path.read_text(encoding="utf-8"))
    installs = re.findall(r"\S+/pip (?:install|wheel) [^&\n]+", text)
    assert len(installs) == 4
    for command in installs:
        assert "--no-deps" in command
        if command.split()[1] == "wheel":
            assert "--no-build-isolation" in command, "what builds is locked as well"
        else:
            assert "--require-hashes" in command or "--no-index" in command
    locks = {word for command in installs for word in command.split() if word.endswith(".lock")}
    assert locks <= {lock.name for lock in LOCKS}
    assert len(locks) == 2
