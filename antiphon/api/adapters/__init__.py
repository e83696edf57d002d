"""Other vendors' protocols, so that their clients work when they are given this server's URL."""

from antiphon.api.adapters import (
    deepgram,
    elevenlabs,
    elevenlabs_account,
    elevenlabs_dialogue,
    elevenlabs_voices,
    elevenlabs_ws,
    kokoro,
    vapi,
)

ADAPTERS = (
    *(deepgram, elevenlabs, elevenlabs_account, elevenlabs_dialogue, elevenlabs_voices),
    *(elevenlabs_ws, kokoro, vapi),
)
"""Each has a ``router``."""
