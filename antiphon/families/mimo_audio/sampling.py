"""Default sampling of text and codes: the official values for speech."""

from antiphon.contracts.types import Sampling
from antiphon.families.mimo_audio.options import MiMoAudioOptions

MAX_FRAMES = 1500
"""Maximum groups per segment, text and speech: 4 minutes."""
TEXT = Sampling(temperature=0.6, top_k=0, top_p=1.0, repetition_penalty=1.0, max_frames=MAX_FRAMES)
CODES = Sampling(temperature=0.9, top_k=0, top_p=0.95, repetition_penalty=1.0)


def code_sampling(asked: Sampling, options: MiMoAudioOptions) -> Sampling:
    """Return complete sampling of codes; a greedy request has greedy codes."""
    temperature = options.local_temperature
    if temperature is None and asked.temperature == 0:
        temperature = 0.0
    given = Sampling(temperature=temperature, top_k=options.local_top_k, top_p=options.local_top_p)
    return given.with_defaults(CODES)
