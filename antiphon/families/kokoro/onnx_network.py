"""The ONNX export in ONNX Runtime, on the CPU."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from antiphon.contracts.types import Samples
from antiphon.errors import ModelLoadError
from antiphon.families.kit.onnx_errors import ONNX_ERRORS
from antiphon.families.kit.onnx_graph import OnnxGraph
from antiphon.families.kokoro.checkpoint import PAD_ID
from antiphon.families.kokoro.onnx_graph import NOISE_LENGTH, with_durations, with_given_noise

_SPEED_TYPES: dict[str, Any] = {"tensor(float)": np.float32, "tensor(int32)": np.int32}
_IDS = "tensor(int64)"


class OnnxNetwork:
    """Speaks sentences; any number of threads may call it at the same time."""

    def __init__(self, file: Path, num_threads: int) -> None:
        """Load the export.

        Args:
            file: ONNX file of the export.
            num_threads: CPU threads that compute one sentence.

        Raises:
            ModelLoadError: ONNX Runtime cannot run the file, or its inputs differ.
        """
        options = ort.SessionOptions()
        options.intra_op_num_threads = num_threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # others wait
        try:
            graph, self._has_durations = with_durations(OnnxGraph.read(file))
            graph, self._noises = with_given_noise(graph)
            self._session = ort.InferenceSession(
                graph.encode(), options, providers=["CPUExecutionProvider"]
            )
        except ONNX_ERRORS as error:
            raise ModelLoadError(f"{file}: cannot be loaded: {error}") from error
        inputs = {each.name: each.type for each in self._session.get_inputs()}
        ids = [name for name, kind in inputs.items() if kind == _IDS]
        if len(ids) != 1 or {*inputs} - {*ids, *self._noises} != {"style", "speed"}:
            raise ModelLoadError(f"{file}: has the inputs {', '.join(inputs)}: none of Kokoro.")
        if inputs["speed"] not in _SPEED_TYPES:
            raise ModelLoadError(f"{file}: its 'speed' is a {inputs['speed']}.")
        self._ids, self._speed = ids[0], np.ones(1, _SPEED_TYPES[inputs["speed"]])

    def speak(
        self, ids: tuple[int, ...], style: NDArray[np.float32], seed: tuple[int, int]
    ) -> tuple[Samples, NDArray[np.float32] | None]:
        """Return a sentence's samples, and its phonemes' durations in frames if they are known.

        Args:
            ids: phoneme ids, without padding.
            style: style vector, see `VoiceStyles.style`.
            seed: seed of the noise, in exports that draw any.
        """
        fed = {
            self._ids: np.array([[PAD_ID, *ids, PAD_ID]], np.int64),
            "style": style,
            "speed": self._speed,
        }
        drawn = np.random.default_rng(seed)
        for name, is_normal in self._noises.items():
            draw = drawn.standard_normal if is_normal else drawn.random
            fed[name] = draw(NOISE_LENGTH, np.float32)
        outputs = self._session.run(None, fed)
        samples: Samples = outputs[0].reshape(-1).astype(np.float32, copy=False)
        return samples, outputs[-1].reshape(-1) if self._has_durations else None
