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
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path, PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
from pydantic import BaseModel

from antiphon.types import AudioChunk

PROTOCOL = 5
_PACKAGE = "antiphon"
_MIN_SEPARATE_BYTES = 2048
_PLAIN = frozenset({bytearray, complex, frozenset, range, set, slice, OrderedDict, deque})
_PATHS = frozenset({Path, PosixPath, PurePosixPath, PureWindowsPath, WindowsPath})
_PLAIN_MODULES = ("builtins", "collections", "numpy", "numpy.dtypes", "pathlib", "pathlib._local")
_BUILDERS = frozenset(
    {
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        *(
            (f"numpy.{core}.{module}", name)
            for core in ("core", "_core")
            for module, name in (
                ("multiarray", "_reconstruct"),
                ("multiarray", "scalar"),
                ("numeric", "_frombuffer"),
            )
        ),
    }
)


class ForeignDataError(pickle.PicklingError, pickle.UnpicklingError):
    """Something that must not cross a connection; the message names it."""


def dumps(value: object, separate: Callable[[pickle.PickleBuffer], None]) -> bytes:
    """Pickle data; large arrays are handed to ``separate`` instead, in order, without a copy.

    Raises:
        ForeignDataError: it holds something that must not cross.
    """

    def keep_apart(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < _MIN_SEPARATE_BYTES:
            return True
        separate(buffer)
        return False

    file = io.BytesIO()
    try:
        _Pickler(file, PROTOCOL, buffer_callback=keep_apart).dump(value)
    except (TypeError, AttributeError) as error:  # of what cannot be pickled at all
        raise ForeignDataError(str(error)) from error
    return file.getvalue()


def loads(data: bytes | memoryview, buffers: Iterable[Any]) -> Any:
    """Return what `dumps` was given, with the buffers that it kept apart.

    Raises:
        ForeignDataError: it names something that must not cross, or is damaged.
    """
    try:
        return _Unpickler(io.BytesIO(data), buffers=buffers).load()
    except Exception as error:  # a damaged pickle raises anything
        raise ForeignDataError(f"{type(error).__name__}: {error}") from error


class _Pickler(pickle.Pickler):
    def reducer_override(self, thing: Any) -> Any:
        kind: type = type(thing)
        if kind is AudioChunk:  # many: the state of a frozen dataclass takes long to set
            return AudioChunk, (
                *(thing.samples, thing.sample_rate_hz, thing.num_frames),
                *(thing.words, thing.unspoken, thing.frames),
            )
        if isinstance(thing, type | FunctionType | BuiltinFunctionType):
            _check_named(thing.__module__, thing.__qualname__)
        elif not _is_admitted(kind):
            raise ForeignDataError(f"{kind.__module__}.{kind.__qualname__} must not cross")
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
    is_array = kind is np.ndarray or issubclass(kind, np.generic | np.dtype)
    return is_error or is_array or kind in _PLAIN or kind in _PATHS
