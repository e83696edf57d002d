"""The worker of NVIDIA Dynamo, without Dynamo and with it."""

import importlib
import os
import sys
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from tests.dynamo import stand_in as dynamo
from tests.dynamo.deployment import Deployment, etcd, free_port, process
from tests.servers import wait_until


@pytest.fixture(scope="module")
def worker() -> Generator[ModuleType, None, None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        dynamo.install(monkeypatch)
        yield importlib.import_module("antiphon.dynamo.worker")
    for name in ("worker", "realtime"):
        del sys.modules[f"antiphon.dynamo.{name}"]


@pytest.fixture(params=["file", "etcd"])
def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Deployment, None, None]:
    """A front end without a worker."""
    with ExitStack() as stack:
        variables = {
            "DYN_DISCOVERY_BACKEND": request.param,
            "DYN_FILE_KV": str(tmp_path / "discovery"),
            "DYN_EVENT_PLANE": "zmq",
            "DYN_TCP_RPC_HOST": "127.0.0.1",
            "ANTIPHON_DATA_DIR": str(tmp_path / "data"),
        }
        if request.param == "etcd":
            if (binary := os.environ.get("ETCD")) is None:
                pytest.skip("ETCD does not name an etcd")
            variables["ETCD_ENDPOINTS"] = stack.enter_context(etcd(binary, tmp_path))
        port = free_port()
        command = ("dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", str(port))
        front_end = stack.enter_context(process(command, variables, tmp_path))
        made = Deployment(f"http://127.0.0.1:{port}", variables, stack, tmp_path)

        def answers() -> bool:
            try:
                return httpx.get(f"{made.base_url}/health").is_success
            except httpx.TransportError:
                return front_end.poll() is not None

        wait_until(answers)
        assert front_end.poll() is None, "the front end ended"
        yield made
