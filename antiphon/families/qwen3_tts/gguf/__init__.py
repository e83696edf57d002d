"""Talkers of Qwen3-TTS in GGUF files, in the layout of qwentts.cpp."""
