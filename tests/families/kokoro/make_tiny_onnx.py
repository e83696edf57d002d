"""Writes tiny.onnx, like the ONNX export but with tones, and tiny_noisy.onnx, which adds noise.

It needs the package ``onnx``: ``python -m tests.families.kokoro.make_tiny_onnx``.
"""

from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
NUM_TOKENS, FRAMES, FRAME_SAMPLES = 178, 2, 600


def write(name: str, *, is_noisy: bool) -> None:
    from onnx import TensorProto, checker, helper, numpy_helper, save_model

    def constant(name: str, value: object, dtype: type) -> object:
        return numpy_helper.from_array(np.array(value, dtype), name)

    steps = np.arange(FRAMES * FRAME_SAMPLES) / 24_000 * 2 * np.pi
    constants = [
        constant("frames_of", np.full(NUM_TOKENS, FRAMES - 0.4), np.float32),
        constant("pitches", [0.0, *(100.0 + 3 * n for n in range(1, NUM_TOKENS))], np.float32),
        constant("steps", steps[None], np.float32),
        constant("one", 1.0, np.float32),
        constant("level", 0.3, np.float32),
        constant("last", [-1], np.int64),
        constant("column", [-1, 1], np.int64),
    ]
    nodes = [
        helper.make_node("Gather", ["frames_of", "input_ids"], ["long"]),
        helper.make_node("Div", ["long", "speed"], ["fast"]),
        helper.make_node("Round", ["fast"], ["rounded"]),
        helper.make_node("Clip", ["rounded", "one"], ["durations"]),
        helper.make_node("Gather", ["pitches", "input_ids"], ["pitch"]),
        helper.make_node("Reshape", ["pitch", "column"], ["rows"]),
        helper.make_node("Mul", ["rows", "steps"], ["phases"]),
        helper.make_node("Sin", ["phases"], ["tones"]),
        helper.make_node("ReduceMean", ["style"], ["mean"], keepdims=0),
        helper.make_node("Add", ["level", "mean"], ["loudness"]),
        helper.make_node("Mul", ["tones", "loudness"], ["loud"]),
        helper.make_node("Reshape", ["noisy" if is_noisy else "loud", "last"], ["waveform"]),
    ]
    if is_noisy:
        nodes[-1:-1] = [
            helper.make_node("RandomNormalLike", ["loud"], ["normal"]),
            helper.make_node("RandomUniformLike", ["loud"], ["uniform"]),
            helper.make_node("Mul", ["normal", "uniform"], ["product"]),
            helper.make_node("Add", ["loud", "product"], ["noisy"]),
        ]
    inputs = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "length"]),
        helper.make_tensor_value_info("style", TensorProto.FLOAT, [1, 256]),
        helper.make_tensor_value_info("speed", TensorProto.FLOAT, [1]),
    ]
    outputs = [helper.make_tensor_value_info("waveform", TensorProto.FLOAT, ["num_samples"])]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    save_model(model, FOLDER / name)


if __name__ == "__main__":
    write("tiny.onnx", is_noisy=False)
    write("tiny_noisy.onnx", is_noisy=True)
