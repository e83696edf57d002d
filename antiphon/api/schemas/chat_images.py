"""The body of a chat whose answer is an image: OpenAI's, with the parameters of images."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from antiphon.api.errors import validated
from antiphon.api.schemas.chat import ChatMessage, StreamOptions
from antiphon.api.schemas.images import ImageBody
from antiphon.errors import InvalidRequestError, invalid, missing


class ImageChatBody(ImageBody):
    """Messages, of which the user's last one is what to draw, and how to draw it.

    Parameters may stand beside the messages, or in ``extra_body`` as in vLLM-Omni's examples.
    """

    prompt: str = Field("", description="Taken from the messages.")
    messages: list[ChatMessage] = Field(min_length=1, description="The last is the prompt.")
    modalities: list[Literal["text", "image", "audio"]] | None = Field(
        None, description="Must hold image, if it is given."
    )
    height: int | None = Field(None, ge=1, description="Instead of size, with width.")
    width: int | None = Field(None, ge=1, description="Instead of size, with height.")
    num_outputs_per_prompt: int | None = Field(None, ge=1, description="Another name of n.")
    stream_options: StreamOptions | None = None

    @model_validator(mode="after")
    def _checked_chat(self) -> Self:
        if self.modalities is not None and "image" not in self.modalities:
            raise invalid(
                "modalities",
                f"{', '.join(self.modalities)}. This model answers with images: 'image' must be"
                " among them, or leave it out",
            )
        if self.prompt:
            raise invalid("prompt", "the last message of the user is the prompt")
        if self.size is not None and (self.width, self.height) != (None, None):
            raise InvalidRequestError(
                "'size' and 'width' or 'height' mean the same: leave one out.", param="size"
            )
        return self

    @property
    def asked(self) -> ChatMessage:
        """The last message of the user; raises InvalidRequestError."""
        for message in reversed(self.messages):
            if message.role == "user":
                return message
        raise invalid("messages", "there is none of the role 'user'")

    def as_images(self) -> ImageBody:
        """Return the same as a request for images; raises InvalidRequestError."""
        members: dict[str, Any] = {
            name: getattr(self, name)
            for name in ImageBody.model_fields
            if name in self.model_fields_set and getattr(self, name) is not None
        }
        members |= self.model_extra or {}
        members["prompt"] = self.asked.text
        if self.num_outputs_per_prompt is not None:
            members["n"] = self.num_outputs_per_prompt
        if (self.width is None) != (self.height is None):
            raise missing("height" if self.height is None else "width")
        if self.width is not None:
            members["size"] = f"{self.width}x{self.height}"
        return validated(ImageBody, members)
