"""Benchmarks: a server over HTTP, a model's stages without it, and their hardware bounds."""
