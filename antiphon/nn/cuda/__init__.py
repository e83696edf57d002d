"""Programs in CUDA C++ for what Triton cannot say: blocks that stay, and tell each other numbers.

They are compiled when a model is loaded, by the compiler that CUDA builds of PyTorch bring. Where
it is missing, or the generation of GPU that they are written for, `antiphon.nn.kernels` run.
"""
