"""What every request passes: limits, keys, origins, logs."""
