"""Exceptions of ONNX Runtime for networks that cannot be built or run."""

from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

ONNX_ERRORS: tuple[type[Exception], ...] = (
    *(RuntimeError, ValueError, IndexError),
    *(ort_errors.Fail, ort_errors.InvalidArgument, ort_errors.InvalidGraph),
    *(ort_errors.InvalidProtobuf, ort_errors.NotImplemented, ort_errors.RuntimeException),
)
"""ONNX Runtime's own exceptions derive from `Exception` directly."""
