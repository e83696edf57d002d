"""Settings of the chat API, and of the conversion of answers to speech."""

from typing import Literal, TypeAlias

from pydantic import Field

from antiphon.config.base import SettingsSection

OPENAI_CHAT_MODELS = (
    *("gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-4.1-mini", "gpt-3.5-turbo"),
    *("gpt-audio", "gpt-4o-audio-preview"),
    *("gpt-realtime", "gpt-realtime-mini", "gpt-4o-realtime-preview"),
)

SaidMarkdown: TypeAlias = Literal["plain", "as_written"]
SaidOrSkipped: TypeAlias = Literal["say", "skip"]
SaidUrl: TypeAlias = Literal["host", "say", "skip"]


class ChatSettings(SettingsSection):
    """Limits and defaults of the chat API."""

    max_input_characters: int = Field(
        1_000_000, ge=1, description="Longest conversation, all messages together."
    )
    max_choices: int = Field(8, ge=1, description="Most answers of one request.")
    reasoning: Literal["apart", "in_text"] = Field(
        "apart", description="What models think first: apart from the answer, or part of its text."
    )
    model_aliases: dict[str, str] = Field(
        default_factory=lambda: dict.fromkeys(OPENAI_CHAT_MODELS, "default"),
        description="Further names of models; 'default' is the first one that chats.",
    )


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
