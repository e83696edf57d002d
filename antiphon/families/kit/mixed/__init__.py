"""Prompts of autoregressive models whose positions hold text or frames."""
