"""How long prompts, recordings and speech may be, as the published code has it."""

FAMILY_NAME = "cosyvoice3"
MAX_POSITIONS = 4096
"""Of a request in the language model: text, recording and speech together."""
MAX_REFERENCE_TOKENS = 250
"""Of a recording, its last ten seconds, that the flow is told; the language model reads all."""
MIN_TOKENS_A_TEXT_TOKEN, MAX_TOKENS_A_TEXT_TOKEN = 2, 20
MIN_ROOM_FRAMES = 250
"""Speech tokens, ten seconds, that a prompt has to leave room for."""
MAX_INSTRUCTIONS_CHARACTERS = 2000
