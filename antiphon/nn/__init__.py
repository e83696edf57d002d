"""The tensor half: layers, attention, sampling, weights, graphs and kernels."""
