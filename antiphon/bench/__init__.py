"""Measures speed: a server over HTTP, a model's stages without it, and what bounds them."""
