"""Codecs of the layers and the names of DAC (arXiv 2306.06546)."""
