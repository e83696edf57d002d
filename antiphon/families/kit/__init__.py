"""Shared parts of families: checkpoints, voices, tokens, ONNX graphs."""
