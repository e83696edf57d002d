"""Request fields that only this family knows."""

from typing import Annotated

from pydantic import Field

from antiphon.contracts.sampling import TEMPERATURE, TOP_K, TOP_P
from antiphon.contracts.types import Sampling
from antiphon.contracts.well_formed import StrictOptions

FAMILY_NAME = "glm_image"


class GlmImageOptions(StrictOptions):
    """Sampling options of the image's codes; defaults are the checkpoint's own."""

    prior_temperature: Annotated[float, TEMPERATURE.computable] | None = Field(
        None, description="Of drawing the image's codes; 0 takes the likeliest."
    )
    prior_top_k: Annotated[int, TOP_K.range] | None = Field(
        None, description="Codes to choose from; 0 keeps all."
    )
    prior_top_p: Annotated[float, TOP_P.range] | None = Field(
        None, description="Probability of the codes to choose from."
    )

    def sampling(self, defaults: Sampling) -> Sampling:
        """Return how codes are drawn."""
        given = Sampling(
            temperature=self.prior_temperature, top_k=self.prior_top_k, top_p=self.prior_top_p
        )
        return given.with_defaults(defaults)
