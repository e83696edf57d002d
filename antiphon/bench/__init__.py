"""Measurements: what is reported says what it was measured on."""
