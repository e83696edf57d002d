"""The step loop of models that denoise: many requests, joined and left between steps."""
