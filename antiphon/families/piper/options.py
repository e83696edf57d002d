"""Request fields that only this family knows: what a voice's file sets, for one request."""

from pydantic import Field

from antiphon.contracts.well_formed import StrictOptions


class PiperOptions(StrictOptions):
    """Sampling options of a sentence; ``None`` is the value of the voice's file."""

    length_scale: float | None = Field(
        None, ge=0.25, le=4, description="How long each phoneme lasts: 2 is half as fast."
    )
    noise_scale: float | None = Field(
        None, ge=0, le=2, description="How much the sound varies; 0: not at all."
    )
    # Lengths grow as its exponential: beyond what was trained, one phoneme may last a minute.
    noise_w: float | None = Field(
        None, ge=0, le=1, description="How much the lengths of phonemes vary; 0: not at all."
    )
