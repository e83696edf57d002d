"""Servers that the tests of the API, of its clients and of the page share, and checkpoints."""

import asyncio
import gc
import logging
import os
import re
import signal
import tomllib
from collections.abc import Callable, Generator
from functools import cache, wraps
from importlib.metadata import EntryPoint, EntryPoints
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import httpx
import httpx._transports.default as httpx_transports
import hypothesis
import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG, create_ssl_context

from antiphon.config import ModelSettings, Settings
from tests import faulty
from tests.forks import pytest_addoption as pytest_addoption
from tests.forks import pytest_configure as pytest_configure
from tests.forks import pytest_runtestloop as pytest_runtestloop
from tests.kernels import hold_products_to_their_rows
from tests.servers import (
    DEADLINE_S,
    NUM_FRONT_ENDS,
    TOY,
    RunningServer,
    start_server,
    with_own_data,
)

if os.environ.get("TRITON_INTERPRET") == "1":
    hold_products_to_their_rows()

# What a shell begins in the background has SIGINT ignored, and so would all have that tests start
# and then stop by it. Programs do not inherit handlers.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# An example may take as long as a busy machine needs.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# httpx waits for five seconds unless a call says otherwise: less than a busy machine may need.
DEFAULT_TIMEOUT_CONFIG.connect = DEFAULT_TIMEOUT_CONFIG.pool = DEADLINE_S
DEFAULT_TIMEOUT_CONFIG.read = DEFAULT_TIMEOUT_CONFIG.write = DEADLINE_S

# Each client reads all certificates anew, and each of httpx's functions makes one: 20 ms, more than
# most requests to a server of the tests take, which has no TLS. All clients share one context.
vars(httpx_transports)["create_ssl_context"] = cache(create_ssl_context)


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


WAIT = (
    "tests/chaos/test_pauses",
    "tests/fabric/cluster/",
    "tests/deploy/",
    "tests/web/",
    "tests/chaos/",
    "tests/cli/",
    "tests/fabric/",
    "tests/clients/",
    "tests/demo/",
    "tests/bench/",
)
"""What mostly waits, begun by the processes beside those that compute; what takes longest first."""
COMPUTE = (
    "tests/families/test_conformance",
    "tests/api/test_description",
    "tests/quality/",
    "tests/nn/kernels/test_full_size",
    "tests/test_",
    "tests/training/",
    "tests/families/",
    "tests/diffusion/",
    "tests/pipeline/",
)
"""What mostly computes; what takes longest first, which would keep one core busy at the end."""


MARKS_OF_SELECTIONS = ("slow", "oracle")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file none of whose tests are selected: each process of a run imports the others."""
    expression = config.option.markexpr
    names = "|".join(name for name in MARKS_OF_SELECTIONS if name in expression)
    named = any(collection_path.name in argument for argument in config.args)
    if not names or named or not collection_path.name.startswith("test_"):
        return None
    text = text_of(collection_path)
    if re.fullmatch(rf"not ({names})( and not ({names}))*", expression):
        found = re.search(rf"^pytestmark = (\[[^\]]*)?pytest\.mark\.({names})\b", text, re.M)
        return found is not None or None
    if re.fullmatch(rf"({names})( or ({names}))*", expression):
        return re.search(rf"\bmark\.({names})\b", text) is None or None
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}.intersection(MARKS_OF_SELECTIONS)
        if marks and not all(f"mark.{mark}" in text_of(item.path) for mark in marks):
            raise pytest.UsageError(f"{item.nodeid}: its file does not name its marks {marks}")

    places = {name: n for n, name in enumerate((*WAIT, "", *reversed(COMPUTE)))}

    def place(item: pytest.Item) -> int:
        names = (name for name in (*WAIT, *COMPUTE, "") if item.nodeid.startswith(name))
        return places[next(names)]

    items.sort(key=place)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import without the garbage collector, and leave what stays out of every later collection.

    A million objects of torch, transformers and the like take half a second to go over, and many
    tests collect on purpose. A server does the same when it has started.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        # pytest adds a handler to each logger that does not propagate, six times a test: 1 ms for
        # the fifty of torch.
        for name, logger in logging.root.manager.loggerDict.items():
            if name.startswith("torch.") and isinstance(logger, logging.Logger):
                logger.propagate = True


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run coroutines in asyncio's event loop, the one that servers run in."""
    return "asyncio"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Cancel a test that is a coroutine at its deadline, and so fail it, instead of hanging."""
    test = pyfuncitem.obj
    if iscoroutinefunction(test):
        deadline_s = DEADLINE_S * (2 if pyfuncitem.get_closest_marker("slow") is None else 10)

        @wraps(test)
        async def in_time(**arguments: object) -> None:
            async with asyncio.timeout(deadline_s):
                await test(**arguments)

        pyfuncitem.obj = in_time


def _data_folder(tmp_path_factory: pytest.TempPathFactory) -> Generator[None, None, None]:
    """Keep away from the voices of whoever runs the tests, and from those of other files."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="module", autouse=True)
def _what_stays_is_collected_once() -> Generator[None, None, None]:
    """Leave what outlives a file out of later collections, each of which takes 80 ms with it."""
    yield
    gc.collect()
    gc.freeze()


# That of the session is for servers that outlive a file.
_data_folder_of_the_session = pytest.fixture(_data_folder, scope="session", autouse=True)
_data_folder_of_a_file = pytest.fixture(_data_folder, scope="module", autouse=True)


@pytest.fixture(scope="session", autouse=True)
def _processes_find_the_benchmarks() -> Generator[None, None, None]:
    """Let processes that tests start import the benchmarks of this checkout, installed or not."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        bench = Path(__file__).parents[1] / "bench"
        monkeypatch.setenv("PYTHONPATH", str(bench), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session", autouse=True)
def _pip_compiles_nothing() -> Generator[None, None, None]:
    """Leave to imports what is compiled: environments for tests hold ten times as much."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PIP_COMPILE", "0")
        yield


@pytest.fixture(scope="session", autouse=True)
def _sizes_of_tests_are_no_settings() -> Generator[None, None, None]:
    """Keep from servers what sizes tests (``ANTIPHON_TEST_*``), which they would refuse to know."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name in tuple(os.environ):
            if name.startswith("ANTIPHON_TEST_"):
                monkeypatch.delenv(name)
        yield


@pytest.fixture(autouse=True)
def _patches_reach_this_process_only(request: pytest.FixtureRequest) -> None:
    if NUM_FRONT_ENDS and "monkeypatch" in request.fixturenames:
        pytest.skip("patches the server, which is several processes")


@pytest.fixture
def bench_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``antiphon bench`` as its project file declares it, installed or not."""
    project = Path(__file__).parents[1] / "bench" / "pyproject.toml"
    declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["entry-points"]
    found = EntryPoints(
        EntryPoint(name, value, group)
        for group, commands in declared.items()
        for name, value in commands.items()
    )
    monkeypatch.setattr("antiphon.cli.main.further_commands", lambda: found)


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Generator[None, None, None]:
    """Compute here with as many threads as in processes that are started: sums depend on them."""
    import torch

    num_threads = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[RunningServer, None, None]:
    """A server of the toy model, shared by all tests."""
    with start_server(with_own_data(TOY, tmp_path_factory)) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Generator[httpx.Client, None, None]:
    with httpx.Client(base_url=server.base_url, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def hibari(tmp_path_factory: pytest.TempPathFactory) -> Generator[RunningServer, None, None]:
    """A server of a voice that times its words, shared by all tests."""
    settings = Settings(model=ModelSettings(source="hibari"))
    with start_server(with_own_data(settings, tmp_path_factory)) as running:
        yield running


@pytest.fixture
def speaker(hibari: RunningServer) -> Generator[httpx.Client, None, None]:
    with httpx.Client(base_url=hibari.base_url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def faulty_server() -> Generator[RunningServer, None, None]:
    """A server of the family that does what its input says; registered for a module at a time."""
    settings = Settings(model=ModelSettings(source="faulty"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        faulty.register(monkeypatch)
        with start_server(settings, send_buffer_bytes=32 * 1024) as running:
            yield running


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any, str], Path]:
    """Return the directory of a tiny checkpoint of few codes a frame, by its size and task."""

    @cache
    def make(size: Any, task: str) -> Path:
        import torch

        from tests.families.qwen3_tts.random_checkpoint import make_checkpoint

        torch.set_num_threads(1)  # tiny products are slower on several cores
        path = tmp_path_factory.mktemp(f"{size}-{task}")
        make_checkpoint(path, size=size, task=task)
        return path

    return make


@pytest.fixture(scope="session")
def drawing_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return the directory of a tiny checkpoint, by its family and what it is for.

    Without the latter it is what the family makes by default.
    """

    @cache
    def make(name: str, task: str | None = None) -> Path:
        import torch

        from tests.families.whole_checkpoints import maker_of

        torch.set_num_threads(1)  # tiny products are slower on several cores
        path = tmp_path_factory.mktemp(f"{name}-{task}")
        maker_of(name)(path, size="tiny", **({} if task is None else {"task": task}))
        return path

    return make
