"""CUDA C++ programs with resident blocks that exchange data, which Triton does not support.

They are compiled when a model is loaded, by the compiler that CUDA builds of PyTorch include.
Without it, or on another GPU generation, `antiphon.nn.kernels` run instead.
"""
