"""Drivers of the stage kinds: one engine each, behind one protocol."""
