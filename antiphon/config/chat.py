"""Settings of the chat API."""

from typing import Literal

from pydantic import Field

from antiphon.config.base import SettingsSection

OPENAI_CHAT_MODELS = (
    *("gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-4.1-mini", "gpt-3.5-turbo"),
    *("gpt-audio", "gpt-4o-audio-preview"),
    *("gpt-realtime", "gpt-realtime-mini", "gpt-4o-realtime-preview"),
)


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
