"""Checkpoints whose weights other tools have quantised, unpacked while they are loaded."""
