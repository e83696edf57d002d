"""Weights in other formats than safetensors: `torch.save` and ONNX."""
