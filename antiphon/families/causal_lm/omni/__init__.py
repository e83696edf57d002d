"""The voice of Qwen2.5-Omni: its talker, and what makes audio of the talker's codes."""
