"""What happens to audio after the model: stretched, resampled, encoded, all as streams."""
