"""Layers of neural audio codecs: streaming with a state per stream, or over whole recordings."""
