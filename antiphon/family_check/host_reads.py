"""A watch over launched steps for operations that wait for the device or read a tensor's values.

Such an operation costs nothing on a CPU, so only this watch finds it there. On a GPU it stalls the
engine, and a CUDA graph cannot be captured over it.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from types import FrameType
from typing import Any

from antiphon.codec.protocol import ElasticDecoder
from antiphon.contracts.family import LoadContext, Ref, StageKind, StageSpec
from antiphon.stages.base import Stage
from antiphon.stages.build import build_stage
from antiphon.telemetry.stage_status import Publish

_CONVERSIONS = ("__bool__", "__int__", "__float__", "__index__", "__complex__")
_METHODS = frozenset(("item", "tolist", "cpu", "nonzero", "is_nonzero", *_CONVERSIONS))
_TO_NUMPY = frozenset(("numpy", "__array__"))
"""Free on the host, where a `HostRunner` returns arrays; never a part of a captured step."""
_OPERATORS = frozenset(["_local_scalar_dense", "nonzero", "is_nonzero", "masked_select", "equal"])
_MODEL_RUNNER = "antiphon.engine.model_runner"


@dataclass(frozen=True, slots=True)
class _Factory(Ref):
    """A stage's factory whose product is watched."""

    kind: StageKind
    reads: "HostReads"

    def resolve(self) -> Callable[[Any], Any]:
        load = Ref(self.target).resolve()

        def load_watched(context: Any) -> Any:
            model = load(context)
            model.launch = self.reads.watched(model.launch)
            if self.kind is StageKind.DECODER and not isinstance(model, ElasticDecoder):
                self.reads.samples_per_frame = model.samples_per_frame
            if self.kind is StageKind.AUTOREGRESSIVE:
                self.reads.has_cache = model.cache is not None
            return model

        return load_watched


class HostReads:
    """Places in a family that read values of tensors between the launch and the end of a step.

    Attributes:
        is_on: whether launches are watched; they are much slower then.
        num_watched: launches that were watched.
        samples_per_frame: samples per frame of the model's decoder; ``None``: there is none, or it
            is elastic.
        has_cache: whether the model's keys and values are paged, which bounds its frames.
        places: operation by the line that calls it, as ``talker.py:88 (next_frame)``.
    """

    def __init__(self) -> None:
        """Begin to watch nothing."""
        self.is_on = False
        self.num_watched = 0
        self.samples_per_frame: int | None = None
        self.has_cache = False
        self.places: dict[str, str] = {}

    def build(self, specs: Sequence[StageSpec], context: LoadContext, publish: Publish) -> Stage:
        """Build stages whose launches can be watched; a `StageBuilder`."""
        launched = (StageKind.AUTOREGRESSIVE, StageKind.DECODER)
        watched = [
            replace(spec, factory=_Factory(spec.factory.target, spec.kind, self))
            if spec.kind in launched
            else spec
            for spec in specs
        ]
        return build_stage(watched, context, publish)

    def watched(self, launch: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``launch`` of a runner or a decoder, watched while the watch is on."""

        @wraps(launch)
        def watching(work: Any, *rest: Any) -> Any:
            if not self.is_on or "torch" not in sys.modules or not _is_repeated(work):
                return launch(work, *rest)
            self.num_watched += 1
            with _guarded(self._note):
                return launch(work, *rest)

        return watching

    def _note(self, operation: str) -> None:
        """Note an operation, unless our own code outside families has called it."""
        modules = [(frame, frame.f_globals.get("__name__", "")) for frame in _frames()]
        for frame, module in modules:
            if module == __name__ or module.partition(".")[0] in ("torch", "contextlib"):
                continue
            if module.startswith("antiphon.") and not module.startswith("antiphon.families."):
                return
            is_captured = any(name.startswith(_MODEL_RUNNER) for _, name in modules)
            if operation in _TO_NUMPY and not is_captured:
                return
            file = frame.f_code.co_filename.rpartition("/")[2]
            place = f"{file}:{frame.f_lineno} ({frame.f_code.co_name})"
            self.places.setdefault(place, operation)  # the method, then the operator that it calls
            return


def _is_repeated(work: Any) -> bool:
    """Whether a launch is one of many alike: chunks, or a plan that starts and prefills nothing."""
    if isinstance(work, Sequence):
        return True
    changes: Iterable[Any] = (work.releases, work.starts, work.appends, work.prefills)
    return bool(work.decode_slots) and not any(changes)


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _has_mask(_: Any, indices: Iterable[Any], values: Any = None, *__: Any) -> bool:
    """Whether an index has as many results as a mask has ones; one value is filled in instead."""
    masks = any(index is not None and str(index.dtype) == "torch.bool" for index in indices)
    return masks and (values is None or values.numel() > 1)


@contextmanager
def _guarded(note: Callable[[str], None]) -> Iterator[None]:
    """Pass the name of every operation that reads values on the host to ``note``."""
    from torch import Tensor, device
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Methods(TorchFunctionMode):
        """Sees methods of tensors, also those that do nothing on a CPU."""

        def __torch_function__(
            self, function: Any, types: Any, arguments: Any = (), options: Any = None
        ) -> Any:
            name = getattr(function, "__name__", "")
            places = [*arguments[1:], *(options or {}).values()] if name == "to" else ()
            if any(str(place) == "cpu" for place in places if isinstance(place, str | device)):
                note("cpu")
            elif name in _METHODS | _TO_NUMPY:
                note(name)
            return function(*arguments, **(options or {}))

    class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
        """Sees what methods and indices become, and copies from the device."""

        def __torch_dispatch__(
            self, function: Any, types: Any, arguments: Any = (), options: Any = None
        ) -> Any:
            name = function.__name__.partition(".")[0]
            result = function(*arguments, **(options or {}))
            is_masked = name in ("index", "index_put", "index_put_") and _has_mask(*arguments)
            inputs = [value for value in arguments if isinstance(value, Tensor)]
            is_copy = name in ("_to_copy", "copy_") and result.is_cpu
            if (
                name in _OPERATORS
                or is_masked
                or (is_copy and not all(tensor.is_cpu for tensor in inputs))
            ):
                note(name)
            return result

    with Operators(), Methods():  # type: ignore[no-untyped-call]
        yield
