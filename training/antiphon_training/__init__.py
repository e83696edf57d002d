"""Training of voices in the layout of Qwen3-TTS, in plain PyTorch: data, codec, language model."""
