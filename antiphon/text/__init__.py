"""Grapheme-to-phoneme conversion for families whose networks read phonemes."""
