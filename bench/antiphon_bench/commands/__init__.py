"""Commands of ``antiphon bench``."""
