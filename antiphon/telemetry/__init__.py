"""Logs, metrics, traces, and the statistics of streams."""
