"""Networks in ONNX Runtime, and its exceptions for networks that cannot be built or run."""

from pathlib import Path

import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

ONNX_ERRORS: tuple[type[Exception], ...] = (
    *(RuntimeError, ValueError, IndexError),
    *(ort_errors.Fail, ort_errors.InvalidArgument, ort_errors.InvalidGraph),
    *(ort_errors.InvalidProtobuf, ort_errors.NotImplemented, ort_errors.RuntimeException),
)
"""ONNX Runtime's own exceptions derive from `Exception` directly."""


def onnx_session(network: Path | bytes, num_threads: int = 1) -> ort.InferenceSession:
    """Load a network, from a file or its contents, for runs on the CPU; raises `ONNX_ERRORS`.

    By default a run has one thread: requests, not operators, are what runs in parallel.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # leaves CPU to others
    source = str(network) if isinstance(network, Path) else network
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
