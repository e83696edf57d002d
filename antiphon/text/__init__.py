"""Text to phonemes: what families share whose networks read phonemes instead of text."""
