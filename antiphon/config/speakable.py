"""Settings of the conversion of answers to speech."""

from typing import Literal, TypeAlias

from pydantic import Field

from antiphon.config.base import SettingsSection

SaidMarkdown: TypeAlias = Literal["plain", "as_written"]
SaidOrSkipped: TypeAlias = Literal["say", "skip"]
SaidUrl: TypeAlias = Literal["host", "say", "skip"]


class SpeakableSettings(SettingsSection):
    """Conversion of chat answers to spoken text; a request may override it."""

    markdown: SaidMarkdown = Field(
        "plain",
        description="plain: marks of headings, emphasis, lists, links and tables are not spoken;"
        " as_written: all is spoken as it stands, and the other settings have no effect.",
    )
    code_blocks: SaidOrSkipped = Field(
        "skip", description="Fenced blocks of code; code within a line is spoken."
    )
    tables: SaidOrSkipped = Field("say", description="The cells of tables.")
    urls: SaidUrl = Field(
        "host", description="Addresses; host: their host alone. Of a link, its text is spoken."
    )
    emoji: SaidOrSkipped = Field(
        "skip", description="Emoji; say: by their English names in Unicode."
    )
