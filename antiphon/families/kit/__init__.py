"""What families share: checkpoints, voices, tokens, ONNX graphs."""
