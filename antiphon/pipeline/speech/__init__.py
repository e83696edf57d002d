"""Text to speech: segments, synthesis, voices and jobs."""
