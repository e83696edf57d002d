"""Texts of requests, from two words to a paragraph."""

from pathlib import Path

TEXTS = tuple(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines())
"""Texts of our own, shortest first."""
