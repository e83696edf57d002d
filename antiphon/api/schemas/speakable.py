"""Options of a request for how its answer is made speakable."""

from pydantic import ConfigDict

from antiphon.config.chat import SaidMarkdown, SaidOrSkipped, SaidUrl, SpeakableSettings
from antiphon.contracts.well_formed import StrictModel


class Speakable(StrictModel):
    """The server's settings, of which a request may change any."""

    model_config = ConfigDict(extra="forbid")

    markdown: SaidMarkdown | None = None
    code_blocks: SaidOrSkipped | None = None
    tables: SaidOrSkipped | None = None
    urls: SaidUrl | None = None
    emoji: SaidOrSkipped | None = None

    def over(self, settings: SpeakableSettings) -> SpeakableSettings:
        """Return the settings with these values."""
        given = {name: value for name, value in self if value is not None}
        return settings.model_copy(update=given)
