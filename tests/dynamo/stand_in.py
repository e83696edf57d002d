"""What the worker uses of NVIDIA Dynamo 1.6.1, for where it is not installed.

Names, arguments and behaviour are those of `dynamo.common.backend`; the exceptions are those whose
effect on Dynamo's front end the worker counts on.
"""

import sys
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

    def id(self) -> str:
        return self.name


def _health_check_payload(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "_HEALTH_CHECK": True}


_MODULES: dict[str, dict[str, Any]] = {
    "dynamo.common.backend.engine": {"EngineConfig": EngineConfig, "RawEngine": RawEngine},
    "dynamo.common.backend.health_check": {"build_raw_health_check_payload": _health_check_payload},
    "dynamo.common.backend.run": {"run": None},
    "dynamo.common.backend.worker": {"WorkerConfig": WorkerConfig},
    "dynamo.llm": {"HttpError": HttpError, "ModelInput": ModelInput},
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
