"""Middleware of every request: limits, keys, origins, logs."""
