"""What the worker uses of NVIDIA Dynamo 1.6.1, for where it is not installed.

Names, arguments and behaviour are those of `dynamo.common.backend`; the exceptions are those whose
effect on Dynamo's front end the worker counts on.
"""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest


class RawEngine:
    """The base class of engines for audio."""


@dataclass
class EngineConfig:
    model: str
    runtime_data: dict[str, Any] | None = None


@dataclass(kw_only=True)
class WorkerConfig:
    namespace: str
    component: str
    model_name: str
    served_model_name: str
    model_input: str
    endpoint_types: str
    discovery_backend: str
    request_plane: str
    response_plane: str
    event_plane: str
    enable_kv_routing: bool


class ModelInput:
    Text = "text"


class InvalidArgument(Exception):  # noqa: N818 - Dynamo's name
    """Status 400 with the message."""


class EngineShutdown(Exception):  # noqa: N818 - Dynamo's name
    """Status 503; the front end sends the worker nothing more."""


class HttpError(Exception):
    """A status, without the message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class DynamoContext:
    """Names a request, as `dynamo._core.Context` does."""

    name: str = "request-1"
    metadata: dict[str, str] = field(default_factory=dict)
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def id(self) -> str:
        return self.name

    def stop_generating(self) -> None:
        self._stopped.set()

    def async_killed_or_stopped(self) -> "asyncio.Future[bool]":
        return asyncio.ensure_future(self._stopped.wait())


class ModelRuntimeConfig:
    """What discovery is told of a model."""

    def __init__(self) -> None:
        self.runtime_data: dict[str, str] = {}

    def set_engine_specific(self, key: str, value: str) -> None:
        self.runtime_data[key] = value


class Endpoint:
    """Serves until its runtime is shut down."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_registered = False
        self.handler: Callable[..., Any] | None = None
        self.model: dict[str, Any] = {}
        self.shut_down = asyncio.Event()

    async def serve_bidirectional_endpoint(
        self, handler: Callable[..., Any], metrics_labels: list[tuple[str, str]]
    ) -> None:
        self.handler, self.is_registered = handler, True
        await self.shut_down.wait()

    async def unregister_endpoint_instance(self) -> None:
        self.is_registered = False


class Runtime:
    """Makes one endpoint; `last` is the runtime that was made last."""

    last: "Runtime"

    def __init__(self, *planes: str, response_plane: str) -> None:
        self.planes = (*planes, response_plane)
        Runtime.last = self

    def endpoint(self, path: str) -> Endpoint:
        self.served = Endpoint(path)
        return self.served

    def shutdown(self) -> None:
        self.served.shut_down.set()


def _create_runtime(*planes: str, response_plane: str) -> tuple[Runtime, Any]:
    return Runtime(*planes, response_plane=response_plane), asyncio.get_running_loop()


class ModelType:
    Realtime = "realtime"


class WorkerType:
    Aggregated = "aggregated"


async def _register_model(
    model_input: str, model_type: str, endpoint: Endpoint, path: str, name: str, **more: Any
) -> None:
    endpoint.model = {"input": model_input, "type": model_type, "name": name, **more}


def _health_check_payload(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "_HEALTH_CHECK": True}


_MODULES: dict[str, dict[str, Any]] = {
    "dynamo.common.backend.engine": {"EngineConfig": EngineConfig, "RawEngine": RawEngine},
    "dynamo.common.backend.health_check": {"build_raw_health_check_payload": _health_check_payload},
    "dynamo.common.backend.run": {"run": None},
    "dynamo.common.backend.worker": {"WorkerConfig": WorkerConfig},
    "dynamo.common.utils.graceful_shutdown": {"get_grace_period_seconds": lambda: 0.0},
    "dynamo.common.utils.runtime": {"create_runtime": _create_runtime},
    "dynamo.llm": {
        "HttpError": HttpError,
        "ModelInput": ModelInput,
        "ModelRuntimeConfig": ModelRuntimeConfig,
        "ModelType": ModelType,
        "WorkerType": WorkerType,
        "register_model": _register_model,
    },
    "dynamo.llm.exceptions": {"EngineShutdown": EngineShutdown, "InvalidArgument": InvalidArgument},
}


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put it in Dynamo's place."""
    for name, members in _MODULES.items():
        parts = name.split(".")
        for count in range(1, len(parts)):
            package = ".".join(parts[:count])
            if package not in _MODULES:
                monkeypatch.setitem(sys.modules, package, ModuleType(package))
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
