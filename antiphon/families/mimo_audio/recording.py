"""What recordings of voices may be."""

MIN_RECORDING_S, MAX_RECORDING_S = 0.5, 30
