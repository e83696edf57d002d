"""The voice of Qwen2.5-Omni: the talker, and the decoder from its codes to audio."""
