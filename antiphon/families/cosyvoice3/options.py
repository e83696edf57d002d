"""Request fields specific to this family, and length limits as in the published code."""

from pydantic import Field

from antiphon.contracts.well_formed import StrictOptions
from antiphon.families.kit.cloned_voices import Reference

FAMILY_NAME = "cosyvoice3"
MAX_POSITIONS = 4096
"""Positions of a request in the language model: text, reference audio and speech together."""
MAX_REFERENCE_TOKENS = 250
"""Reference tokens that condition the flow, the last ten seconds; the language model reads all."""


class CosyVoice3Options(StrictOptions):
    """Request options beyond the fields shared by all families."""

    ref_audio: Reference | None = Field(None, description="The recording to imitate.")
    ref_text: str | None = Field(
        None,
        description="Transcript of the recording: the speech continues it. Without it, only the"
        " sound is imitated, in any language.",
    )
