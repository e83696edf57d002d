"""The journey of a request through a model's stages."""
