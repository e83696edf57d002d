"""Readers of configuration that several families have in common."""
