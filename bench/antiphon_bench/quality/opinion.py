"""Opinion scores of speech from 1 to 5, by DistillMOS (Stahl and Gamper 2025)."""

import contextlib
import io
import sys
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import soxr
import torch

from antiphon.errors import SettingsError
from antiphon_bench.seams import Signal

INSTALL = "pip install --no-deps distillmos==0.9.1 xls-r-sqa==0.1.0"
_RATE_HZ = 16_000
_UNUSED = "torchaudio"
"""The package imports it to read files, which is not asked of it here."""


class OpinionModel:
    """The network, on the CPU."""

    def __init__(self) -> None:
        """Load it; raises SettingsError if its packages are not there."""
        self._model = _network()

    def score(self, signal: Signal, rate_hz: int) -> float:
        """Return the score of a recording: 1 is bad, 5 is excellent."""
        samples = torch.from_numpy(soxr.resample(signal, rate_hz, _RATE_HZ)).float()
        with torch.inference_mode():
            return float(self._model(samples[None]).item())


@cache
def _network() -> Any:
    if find_spec("distillmos") is None or find_spec("xls_r_sqa") is None:
        raise SettingsError(f"Opinion scores need: {INSTALL}")
    stands_in = find_spec(_UNUSED) is None
    if stands_in:
        sys.modules[_UNUSED] = ModuleType(_UNUSED)
    try:
        from distillmos import ConvTransformerSQAModel
    finally:
        if stands_in:
            del sys.modules[_UNUSED]
    with contextlib.redirect_stdout(io.StringIO()):  # it prints the path of its weights
        return ConvTransformerSQAModel().eval()
