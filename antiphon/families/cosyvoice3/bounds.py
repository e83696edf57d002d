"""Length limits of prompts, reference audio and speech, as in the published code."""

FAMILY_NAME = "cosyvoice3"
MAX_POSITIONS = 4096
"""Positions of a request in the language model: text, reference audio and speech together."""
MAX_REFERENCE_TOKENS = 250
"""Reference tokens that condition the flow, the last ten seconds; the language model reads all."""
MIN_TOKENS_A_TEXT_TOKEN, MAX_TOKENS_A_TEXT_TOKEN = 2, 20
MIN_ROOM_FRAMES = 250
"""Minimum space for speech that a prompt must leave: ten seconds of speech tokens."""
MAX_INSTRUCTIONS_CHARACTERS = 2000
