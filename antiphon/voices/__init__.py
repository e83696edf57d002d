"""Voices that users bring: where recordings come from, and what is kept of them."""
