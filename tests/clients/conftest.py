"""Other people's clients leave sockets to the garbage collector; ours do not."""

import gc
import warnings
from collections.abc import Generator

import openai
import pytest

from antiphon.config import ModelSettings, ServerSettings, Settings
from tests.servers import OPENAI_KEY, RunningServer, start_server, with_own_data


@pytest.fixture(autouse=True)
def sweep_up(request: pytest.FixtureRequest) -> Generator[None, None, None]:
    """Collect what a foreign client has left open before its warning meets another test."""
    yield
    if request.node.get_closest_marker("clients") is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Generator[RunningServer, None, None]:
    """A server whose model has a slash in its name, with a key."""
    server = ServerSettings(api_keys=(OPENAI_KEY,))
    settings = Settings(model=ModelSettings(source="toy", name="org/toy"), server=server)
    with start_server(with_own_data(settings, tmp_path_factory)) as running:
        yield running


@pytest.fixture
def client(guarded: RunningServer) -> Generator[openai.OpenAI, None, None]:
    with openai.OpenAI(base_url=f"{guarded.base_url}/v1", api_key=OPENAI_KEY) as client:
        yield client
