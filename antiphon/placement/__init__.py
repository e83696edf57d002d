"""Placement of stages on devices: placement files, profiles, and their meaning for a model."""
