"""Pickling of what crosses a connection: data of ours, of NumPy and of Python, nothing else.

A pickle can name any callable. Here those are found only that build data: dataclasses,
enumerations, settings and errors of this package, arrays, and some plain types. Whatever else is
named is refused, by the sender already, so that a mistake there ends one stream and not the
connection.
"""

import io
import pickle
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path, PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

PROTOCOL = 5
_PACKAGE = "antiphon"
_MIN_SEPARATE_BYTES = 2048
_PLAIN = frozenset({bytearray, complex, frozenset, range, set, slice, OrderedDict, deque})
_PATHS = frozenset({Path, PosixPath, PurePosixPath, PureWindowsPath, WindowsPath})
_PLAIN_MODULES = ("builtins", "collections", "pathlib", "pathlib._local")
_KINDS_OF_NUMBERS_AND_TEXT = "biufcSU"  # of NumPy's types; others refer to objects, or have fields
_OURS = "antiphon.fabric.wire.safe_pickle"
_BUILDERS = frozenset((_OURS, name) for name in ("array", "build", "scalar"))


class ForeignDataError(pickle.PicklingError, pickle.UnpicklingError):
    """Something that must not cross a connection; the message names it."""


def dumps(value: object, separate: Callable[[pickle.PickleBuffer], None] | None = None) -> bytes:
    """Pickle data; large arrays are handed to ``separate``, if given, in order, without a copy.

    Raises:
        ForeignDataError: it holds something that must not cross.
    """

    def keep_apart(buffer: pickle.PickleBuffer) -> bool:
        if separate is None or buffer.raw().nbytes < _MIN_SEPARATE_BYTES:
            return True
        separate(buffer)
        return False

    file = io.BytesIO()
    try:
        _Pickler(file, PROTOCOL, buffer_callback=keep_apart).dump(value)
    except (TypeError, AttributeError) as error:  # of what cannot be pickled at all
        raise ForeignDataError(str(error)) from error
    return file.getvalue()


def loads(data: bytes | memoryview, buffers: Iterable[Any] = ()) -> Any:
    """Return what `dumps` was given, with its separate buffers; raises ForeignDataError."""
    try:
        return _Unpickler(io.BytesIO(data), buffers=buffers).load()
    except Exception as error:  # a damaged pickle raises anything
        raise ForeignDataError(f"{type(error).__name__}: {error}") from error


def build(kind: type, *values: Any) -> Any:
    """Return a dataclass with slots whose fields have these values, as they were sent."""
    made: Any = object.__new__(kind)
    for name, value in zip(_field_names(kind), values, strict=True):
        object.__setattr__(made, name, value)
    return made


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def array(dtype: str, shape: tuple[int, ...], data: Any) -> NDArray[Any]:
    """Return an array over a buffer, as it was sent."""
    return np.ndarray(shape, _checked(np.dtype(dtype)), data)


def scalar(dtype: str, data: bytes) -> Any:
    """Return a scalar of NumPy, as it was sent."""
    return np.frombuffer(data, _checked(np.dtype(dtype)))[0]


def _checked(dtype: "np.dtype[Any]") -> "np.dtype[Any]":
    if dtype.kind not in _KINDS_OF_NUMBERS_AND_TEXT:
        raise ForeignDataError(f"an array of {dtype} must not cross")
    return dtype


def _reduce_array(thing: Any) -> tuple[Any, ...]:
    dtype = _checked(thing.dtype)
    if not thing.flags.c_contiguous:
        thing = np.ascontiguousarray(thing)
    return array, (dtype.str, thing.shape, pickle.PickleBuffer(thing))


def _reduce_scalar(thing: Any) -> tuple[Any, ...]:
    return scalar, (_checked(thing.dtype).str, thing.tobytes())


def _reducer_of(kind: Any) -> Callable[[Any], Any] | None:
    """Return how things of a type are taken apart; ``None``: as pickle does it."""
    if issubclass(kind, type):
        return None
    if not _is_admitted(kind):
        raise ForeignDataError(f"{kind.__module__}.{kind.__qualname__} must not cross")
    if issubclass(kind, np.generic):
        return _reduce_scalar
    names = _field_names(kind)
    if not names or kind.__dictoffset__:
        return None
    values_of = attrgetter(*names)
    if len(names) == 1:
        return lambda thing: (build, (kind, values_of(thing)))
    return lambda thing: (build, (kind, *values_of(thing)))


class _Reducers(dict[type, Callable[[Any], Any]]):
    """How things are taken apart, by their type.

    What a dataclass with slots brings for it takes several times as long.
    """

    def __missing__(self, kind: type) -> Callable[[Any], Any]:
        reducer = _reducer_of(kind)
        if reducer is None:
            raise KeyError(kind)
        self[kind] = reducer
        return reducer


_NAMED = (type, FunctionType, BuiltinFunctionType)
_names_checked: set[Any] = set()  # all of them admitted, so it is bounded


class _Pickler(pickle.Pickler):
    dispatch_table = _Reducers({np.ndarray: _reduce_array})

    def reducer_override(self, thing: Any) -> Any:
        """Check what is pickled by its name alone."""
        if isinstance(thing, _NAMED) and thing not in _names_checked:
            _check_named(thing.__module__, thing.__qualname__)
            _names_checked.add(thing)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _found(module, name)


@cache
def _found(module: str, name: str) -> Any:
    """Return what a pickle may name; only what is admitted is cached, so the cache is bounded."""
    _check_named(module, name)
    return getattr(import_module(module), name)


def _check_named(module: str, name: str) -> None:
    if (module, name) in _BUILDERS:
        return
    is_ours = module.startswith(f"{_PACKAGE}.") and not module.endswith("__main__")
    if (is_ours or module in _PLAIN_MODULES) and "." not in name:
        found = vars(import_module(module)).get(name)
        if isinstance(found, type) and _is_admitted(found):
            return
    raise ForeignDataError(f"{module}.{name} must not cross")


@cache
def _is_admitted(kind: type) -> bool:
    if kind.__module__.startswith(f"{_PACKAGE}."):
        is_data = is_dataclass(kind) or issubclass(kind, Enum | BaseModel | Exception)
        return is_data or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    is_error = kind.__module__ == "builtins" and issubclass(kind, Exception)
    is_scalar = issubclass(kind, np.generic) and kind is not np.object_
    return is_error or is_scalar or kind in _PLAIN or kind in _PATHS
