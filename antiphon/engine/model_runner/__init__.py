"""Runs an autoregressive model for the engine: slots, block tables, prefill and CUDA graphs."""
